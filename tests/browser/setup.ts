// SPDX-License-Identifier: Apache-2.0
// The page is built from what is here now.
import { execFileSync } from "node:child_process";
import { join } from "node:path";

export function setup(): void {
  execFileSync(process.execPath, [join(import.meta.dirname, "../../hack/panel/main.ts")]);
}
