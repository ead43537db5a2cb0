// SPDX-License-Identifier: Apache-2.0
// Builds the page from the current sources.
import { execFileSync } from "node:child_process";
import { join } from "node:path";

export function setup(): void {
  execFileSync(process.execPath, [join(import.meta.dirname, "../../hack/panel/main.ts")]);
}
