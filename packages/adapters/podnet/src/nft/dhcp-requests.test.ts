// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { answersTable } from "./answers.ts";
import { parseDhcpRequests } from "./dhcp-requests.ts";
import { natTable } from "./nat.ts";
import { tableText, type Table } from "./table.ts";

const LINKS = { bridgeName: "k6t-1", podInterfaceName: "pod1", tapName: "tap1" };
const ADDRESSES = ["169.254.75.10/32", "fd09::/64"];
const TABLES: readonly (readonly [string, Table])[] = [
  [
    "bridge",
    answersTable({
      ...LINKS,
      bridgeMac: "5e:00:00:00:00:01",
      answers: { addresses: ADDRESSES },
    }),
  ],
  [
    "masquerade",
    natTable({
      ...LINKS,
      ipv4: { gateway: "10.0.2.1/24", guest: "10.0.2.2" },
      ipv6: { gateway: "fd10::1/120", guest: "fd10::2" },
      ports: [{ protocol: "udp", first: 67, last: 67 }],
    }),
  ],
];

test.each(TABLES)("counts requests of both families: %s", (_, table) => {
  let packets = 0;
  const text = tableText(table).replaceAll(/ counter\b/g, () => {
    packets += 3;
    return ` counter packets ${String(packets)} bytes 900`;
  });
  expect(parseDhcpRequests(text)).toBe(3 + 6);
});
