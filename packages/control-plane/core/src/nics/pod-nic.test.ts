// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { findRenamedNic } from "./pod-nic.ts";

const NIC = { name: "pod16477688c0e" };
const MIGRATED = { name: "16477688c0e-nic" };
const PORT = { ...MIGRATED, master: "k6t-16477688c0e" };
const OTHER = { name: "ba4788b226a-nic", master: "k6t-ba4788b226a" };

test.each([
  { name: "no links exist", links: [], want: undefined },
  { name: "the NIC is unchanged", links: [NIC], want: undefined },
  { name: "another NIC was renamed", links: [NIC, OTHER], want: undefined },
  { name: "a dummy has the NIC's name", links: [NIC, PORT], want: MIGRATED.name },
  { name: "the dummy is deleted and the bridge still exists", links: [PORT], want: MIGRATED.name },
  { name: "the dummy and the bridge are deleted", links: [MIGRATED], want: MIGRATED.name },
  {
    name: "the link remains of an earlier NIC with that name",
    links: [NIC, MIGRATED],
    want: undefined,
  },
])("$name", ({ links, want }) => {
  expect(findRenamedNic(links, NIC.name)).toBe(want);
});

test("retains the address of a NIC that is named by its position", () => {
  expect(findRenamedNic([{ name: "net12-nic" }], "net12")).toBe("net12-nic");
});
