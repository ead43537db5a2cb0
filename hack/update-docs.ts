// SPDX-License-Identifier: Apache-2.0
// Writes the generated pages of docs/reference/ anew.
import { mkdirSync, writeFileSync } from "node:fs";
import { REFERENCE_DIRECTORY, renderDocs } from "./render-docs.ts";

const wanted = await renderDocs();
mkdirSync(REFERENCE_DIRECTORY, { recursive: true });
for (const [name, text] of wanted) writeFileSync(new URL(name, REFERENCE_DIRECTORY), text);
console.log(`wrote ${String(wanted.size)} files to docs/reference/`);
