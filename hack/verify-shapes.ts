// SPDX-License-Identifier: Apache-2.0
// Fails when the forms of built-in kinds are not what the client's models and hack/shape-facts.ts say.
import { readFileSync } from "node:fs";
import { SHAPES_FILE, renderShapes, unusedFacts } from "./render-shapes.ts";

const current = readFileSync(SHAPES_FILE, "utf8").split("\n");
const wanted = (await renderShapes()).split("\n");
const at = wanted.findIndex((line, index) => line !== current[index]);
const unused = await unusedFacts();

for (const fact of unused) console.error(`hack/shape-facts.ts: no model has ${fact}`);
if (at !== -1 || wanted.length !== current.length) {
  const line = at === -1 ? wanted.length : at;
  console.error(`packages/apiserver/src/shapes/shapes.json:${String(line + 1)} differs`);
  console.error(`  - ${current[line] ?? "(end of file)"}`);
  console.error(`  + ${wanted[line] ?? "(end of file)"}`);
  console.error("shapes.json is not up to date; run: npm run gen");
  process.exitCode = 1;
} else if (unused.length > 0) {
  process.exitCode = 1;
} else {
  console.log("packages/apiserver/src/shapes/shapes.json is up to date");
}
