// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { findBefore, lastVersion, listVersions } from "./recorded.ts";

const RECORDED = ["v0.1", "v0.2", "v0.2.1", "v0.10"];

test.each([
  { version: "0.1.0", want: undefined },
  { version: "0.2.0", want: "v0.1" },
  { version: "0.2.0-rc.1", want: "v0.1" },
  { version: "0.2.1", want: "v0.2" },
  { version: "0.3.0", want: "v0.2.1" },
  { version: "0.11.0", want: "v0.10" },
])("the version before $version is $want", ({ version, want }) => {
  expect(findBefore(RECORDED, version)).toBe(want);
});

test("a version before this one is recorded", () => {
  expect(listVersions()).toContain(lastVersion());
});
