// SPDX-License-Identifier: Apache-2.0
// Writes crds/ anew from packages/api.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { CRDS_DIRECTORY, renderCrds } from "./render-crds.ts";

const wanted = renderCrds();
mkdirSync(CRDS_DIRECTORY, { recursive: true });
for (const name of readdirSync(CRDS_DIRECTORY)) {
  if (name.endsWith(".yaml") && !wanted.has(name)) rmSync(new URL(name, CRDS_DIRECTORY));
}
for (const [name, text] of wanted) writeFileSync(new URL(name, CRDS_DIRECTORY), text);
console.log(`wrote ${String(wanted.size)} files to crds/`);
