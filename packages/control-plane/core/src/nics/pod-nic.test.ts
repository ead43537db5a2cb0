// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { findRenamedNic } from "./pod-nic.ts";

const NIC = { name: "pod16477688c0e" };
const MIGRATED = { name: "16477688c0e-nic" };
const PORT = { ...MIGRATED, master: "k6t-16477688c0e" };
const OTHER = { name: "ba4788b226a-nic", master: "k6t-ba4788b226a" };

test.each([
  { name: "nothing is there", links: [], want: undefined },
  { name: "nobody has touched it", links: [NIC], want: undefined },
  { name: "another NIC was moved", links: [NIC, OTHER], want: undefined },
  { name: "a dummy has its name", links: [NIC, PORT], want: MIGRATED.name },
  { name: "its dummy has gone and its bridge not yet", links: [PORT], want: MIGRATED.name },
  { name: "what was around it has gone", links: [MIGRATED], want: MIGRATED.name },
  { name: "it was left of an earlier NIC of that name", links: [NIC, MIGRATED], want: undefined },
])("$name", ({ links, want }) => {
  expect(findRenamedNic(links, NIC.name)).toBe(want);
});

test("keeps the address of a NIC that is named by its position", () => {
  expect(findRenamedNic([{ name: "net12-nic" }], "net12")).toBe("net12-nic");
});
