// SPDX-License-Identifier: Apache-2.0
// Has each interface a fake, a suite that the fake passes, and a real thing that passes it too?
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";

const SOURCES = import.meta.dirname;
const REPOSITORY = join(SOURCES, "../../../../..");
/** The interfaces of `@patchbay/base`. */
const OF_BASE = ["clock.ts", "logger.ts"];

const interfaces = globSync(["*.ts", "node/**/*.ts"], { cwd: SOURCES }).filter(
  (file) => file !== "index.ts" && !file.endsWith(".test.ts"),
);
/** Fakes and suites, each behind the testing door of the package that has the real thing. */
const retained = globSync("packages/*/*/src/testing/{contracts,fakes}/*.ts", { cwd: REPOSITORY });
/** Tests of adapters, here and against the real thing. */
const users = globSync(["packages/**/src/**/*.test.ts", "tests/contract/**/*.test.ts"], {
  cwd: REPOSITORY,
  exclude: (path) => path.includes("node_modules"),
})
  .filter((path) => !path.includes("/src/testing/"))
  .map((path) => readFileSync(join(REPOSITORY, path), "utf8"));

function read(path: string): string {
  return readFileSync(join(REPOSITORY, path), "utf8");
}

test.each([...interfaces, ...OF_BASE].sort())("%s", (file) => {
  const stem = basename(file, ".ts");
  const find = (kind: string): readonly string[] =>
    retained.filter((path) => path.endsWith(`/${kind}.ts`)).map(read);
  const suites =
    find(`contracts/${stem}`)
      .join("")
      .match(/describe\w+Contract(?=\()/g) ?? [];
  const calls = [...find(`contracts/${stem}.test`), ...find(`fakes/${stem}.test`)].join("\n");
  expect(suites).not.toEqual([]);
  expect(find(`fakes/${stem}`).join("")).toMatch(/export function createFake/);
  for (const suite of suites) {
    expect(calls, `the fake's test of ${suite}`).toContain(`${suite}(`);
    expect(
      users.some((text) => text.includes(`${suite}(`)),
      `a real thing in ${suite}`,
    ).toBe(true);
  }
});
