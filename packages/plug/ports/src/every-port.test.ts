// SPDX-License-Identifier: Apache-2.0
// Has each port a fake, a suite that the fake passes, and a real thing that passes it too?
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const SOURCES = import.meta.dirname;
const REPOSITORY = join(SOURCES, "../../../..");
const DOORS: readonly string[] = ["index.ts"];

const ports = globSync(["*.ts", "node/*.ts"], { cwd: SOURCES }).filter(
  (file) => !DOORS.includes(file) && !file.endsWith(".test.ts"),
);
/** Tests of adapters, here and against the real thing. */
const users = globSync(["packages/**/src/**/*.test.ts", "tests/contract/**/*.test.ts"], {
  cwd: REPOSITORY,
  exclude: (path) => path.includes("node_modules"),
})
  .filter((path) => !path.startsWith("packages/plug/ports/"))
  .map((path) => readFileSync(join(REPOSITORY, path), "utf8"));

test.each(ports.sort())("%s", (file) => {
  const read = (path: string): string => readFileSync(join(SOURCES, path), "utf8");
  const suites = read(`contracts/${file}`).match(/describe\w+Contract(?=\()/g) ?? [];
  const calls = globSync(`{contracts,fakes}/${file.replace(".ts", "")}.test.ts`, { cwd: SOURCES });
  expect(suites).not.toEqual([]);
  expect(read(`fakes/${file}`)).toMatch(/export function createFake/);
  for (const suite of suites) {
    expect(calls.map(read).join("\n"), `the fake's test of ${suite}`).toContain(`${suite}(`);
    expect(
      users.some((text) => text.includes(`${suite}(`)),
      `a real thing in ${suite}`,
    ).toBe(true);
  }
});
