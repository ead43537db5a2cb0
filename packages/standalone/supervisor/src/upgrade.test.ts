// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { findUpgradeProblem } from "./upgrade.ts";

test.each<{ version?: string; own: string; want: string | undefined }>([
  { own: "0.2.0", want: undefined },
  { version: "0.1.9", own: "0.2.0", want: undefined },
  { version: "0.2.0", own: "0.2.0", want: undefined },
  { version: "0.2.0", own: "0.10.0", want: undefined },
  { version: "0.10.0", own: "0.2.9", want: "the machine runs 0.10.0" },
  { version: "1.0.0", own: "0.9.9", want: "the machine runs 1.0.0" },
  { version: "0.2.1", own: "0.2.0", want: "the machine runs 0.2.1" },
])("an upgrade from $version to $own is refused: $want", ({ version, own, want }) => {
  const running = { phase: "ready", ...(version !== undefined && { version }) } as const;
  const problem = findUpgradeProblem(running, { version: own, build: "" });
  expect(problem?.split(",")[0]).toBe(want);
});

test("only a machine that is ready is upgraded", () => {
  const own = { version: "1.0.0", build: "" };
  expect(findUpgradeProblem(undefined, own)).toContain("patchbay up");
  expect(findUpgradeProblem({ phase: "starting" }, own)).toContain("the machine is starting");
});
