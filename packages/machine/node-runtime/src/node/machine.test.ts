// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { hostIpIn } from "./machine.ts";

function link(flag: string, ...addresses: readonly (readonly [string, string])[]) {
  return {
    flags: [flag, "UP"],
    addr_info: addresses.map(([local, scope]) => ({ local, scope })),
  };
}

const LOOPBACK = link("LOOPBACK", ["127.0.0.1", "host"], ["10.96.0.10", "global"]);

test.each([
  {
    name: "the first of a NIC, and none that a Service has",
    links: [
      LOOPBACK,
      link("BROADCAST", ["192.0.2.7", "global"]),
      link("BROADCAST", ["10.88.0.1", "global"]),
    ],
    want: "192.0.2.7",
  },
  {
    name: "none of a link alone",
    links: [link("BROADCAST", ["169.254.3.4", "link"]), link("BROADCAST", ["192.0.2.8", "global"])],
    want: "192.0.2.8",
  },
  { name: "without a NIC", links: [LOOPBACK, link("BROADCAST")], want: "127.0.0.1" },
])("the machine's address: $name", ({ links, want }) => {
  expect(hostIpIn(JSON.stringify(links))).toBe(want);
});

test("a machine that says nothing has that of the loopback", () => {
  expect(hostIpIn("")).toBe("127.0.0.1");
});
