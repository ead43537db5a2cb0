// SPDX-License-Identifier: Apache-2.0
// Fails when crds/ is not what packages/api says; names the first line that differs.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { CRDS_DIRECTORY, renderCrds } from "./render-crds.ts";

function firstDifference(name: string, wanted: string): string | undefined {
  const file = new URL(name, CRDS_DIRECTORY);
  if (!existsSync(file)) return `crds/${name} is missing`;
  const current = readFileSync(file, "utf8");
  if (current === wanted) return undefined;
  const have = current.split("\n");
  const want = wanted.split("\n");
  const at = want.findIndex((line, index) => line !== have[index]);
  const line = at === -1 ? want.length : at;
  return [
    `crds/${name}:${String(line + 1)} differs`,
    `  - ${have[line] ?? "(end of file)"}`,
    `  + ${want[line] ?? "(end of file)"}`,
  ].join("\n");
}

const wanted = renderCrds();
const present = existsSync(CRDS_DIRECTORY) ? readdirSync(CRDS_DIRECTORY) : [];
const problems = [
  ...[...wanted].map(([name, text]) => firstDifference(name, text)),
  ...present
    .filter((name) => !wanted.has(name))
    .map((name) => `crds/${name} belongs to no definition`),
].filter((problem) => problem !== undefined);

for (const problem of problems) console.error(problem);
if (problems.length > 0) {
  console.error("crds/ is not up to date; run: npm run gen");
  process.exitCode = 1;
} else {
  console.log(`crds/ is up to date (${String(wanted.size)} files)`);
}
