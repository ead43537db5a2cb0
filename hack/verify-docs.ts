// SPDX-License-Identifier: Apache-2.0
// Fails when a generated page of docs/reference/ is not what the code says; names the first line that differs.
import { existsSync, readFileSync } from "node:fs";
import { REFERENCE_DIRECTORY, renderDocs } from "./render-docs.ts";

function firstDifference(name: string, wanted: string): string | undefined {
  const file = new URL(name, REFERENCE_DIRECTORY);
  if (!existsSync(file)) return `docs/reference/${name} is missing`;
  const current = readFileSync(file, "utf8");
  if (current === wanted) return undefined;
  const have = current.split("\n");
  const want = wanted.split("\n");
  const found = want.findIndex((line, index) => line !== have[index]);
  const at = found === -1 ? want.length : found;
  return [
    `docs/reference/${name}:${String(at + 1)} differs`,
    `  - ${have[at] ?? "(end of file)"}`,
    `  + ${want[at] ?? "(end of file)"}`,
  ].join("\n");
}

const wanted = await renderDocs();
const problems = [...wanted]
  .map(([name, text]) => firstDifference(name, text))
  .filter((problem) => problem !== undefined);

for (const problem of problems) console.error(problem);
if (problems.length > 0) {
  console.error("docs/reference/ is not up to date; run: npm run gen");
  process.exitCode = 1;
} else {
  console.log(`docs/reference/ is up to date (${String(wanted.size)} generated files)`);
}
