// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { readGuestSystem } from "./system.ts";

test.each([
  {
    name: "what can be read",
    given: { id: "debian", kernelRelease: "6.1.0-9" },
    want: { id: "debian", kernelRelease: "6.1.0-9" },
  },
  { name: "nothing that is empty", given: { id: "", name: "Debian" }, want: { name: "Debian" } },
  { name: "nothing that a terminal obeys", given: { id: "a\u001b[2J", name: "a\u202e" }, want: {} },
  {
    name: "nothing that is long",
    given: { id: "a".repeat(256), name: "b".repeat(255) },
    want: { name: "b".repeat(255) },
  },
])("of a guest's system is shown $name", ({ given, want }) => {
  expect(readGuestSystem(given)).toEqual(want);
});
