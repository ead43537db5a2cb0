// SPDX-License-Identifier: Apache-2.0
// What a change becomes, byte by byte where it counts; what the kernel makes of it is the contract's matter.
import { describe, expect, test } from "vitest";
import { printLinkChange } from "./links.ts";
import { encodeChange, type SingleMessageChange } from "./pod-network.ts";

const INDICES = new Map([
  ["k6t-1", 3],
  ["tap1", 4],
]);

function toHex(change: SingleMessageChange): string {
  const message = encodeChange(change, (name) => INDICES.get(name) ?? 0);
  return Buffer.from(message).toString("hex");
}

interface Row {
  readonly command: string;
  readonly change: SingleMessageChange;
  readonly hex: string;
}

const ROWS: readonly Row[] = [
  // Header (length, type 16, flags 5), then family, index, flags and mask.
  {
    command: "ip link set tap1 up",
    change: { op: "setLink", link: "tap1", settings: { up: true } },
    hex: "20000000100005000000000000000000000000000400000001000000 01000000",
  },
  {
    command: "ip link set tap1 down",
    change: { op: "setLink", link: "tap1", settings: { up: false } },
    hex: "20000000100005000000000000000000000000000400000000000000 01000000",
  },
  {
    command: "ip link set tap1 master k6t-1",
    change: { op: "setLink", link: "tap1", settings: { master: "k6t-1" } },
    hex: "28000000100005000000000000000000000000000400000000000000 00000000 08000a0003000000",
  },
  {
    command: "ip link set tap1 mtu 1450 arp off",
    change: { op: "setLink", link: "tap1", settings: { mtu: 1450, arp: false } },
    hex: "28000000100005000000000000000000000000000400000080000000 80000000 08000400aa050000",
  },
  // IFLA_LINKINFO { IFLA_INFO_SLAVE_KIND "bridge", IFLA_INFO_SLAVE_DATA { IFLA_BRPORT_LEARNING } }
  {
    command: "ip link set tap1 type bridge_slave learning off",
    change: { op: "setLink", link: "tap1", settings: { learning: false } },
    hex: "3c00000010000500000000000000000000000000040000000000000000000000 1c001200 0b00040062726964676500 00 0c000500 0500080000000000",
  },
  {
    command: "ip link set tap1 type bridge_slave flood on mcast_flood on bcast_flood on",
    change: { op: "setLink", link: "tap1", settings: { flooding: true } },
    hex: "4c00000010000500000000000000000000000000040000000000000000000000 2c001200 0b00040062726964676500 00 1c000500 0500090001000000 05001b0001000000 05001e0001000000",
  },
  // IFLA_BRPORT_GROUP_FWD_MASK, 16 bits
  {
    command: "ip link set tap1 type bridge_slave group_fwd_mask 0xfffd",
    change: { op: "setLink", link: "tap1", settings: { passesSwitchFrames: true } },
    hex: "3c00000010000500000000000000000000000000040000000000000000000000 1c001200 0b00040062726964676500 00 0c000500 06001f00fdff0000",
  },
  {
    command: "ip link del k6t-1",
    change: { op: "deleteLink", link: "k6t-1" },
    hex: "20000000110005000000000000000000000000000300000000000000 00000000",
  },
  {
    command: "ip addr add 10.0.0.1/24 dev k6t-1 noprefixroute",
    change: {
      op: "addAddress",
      link: "k6t-1",
      address: "10.0.0.1/24",
      flags: ["noprefixroute"],
    },
    hex: "30000000140005060000000000000000 02180000 03000000 080002000a000001 080001000a000001 0800080000020000",
  },
  {
    command: "bridge fdb replace 02:00:00:00:00:0a dev tap1 master static",
    change: { op: "replaceFdbEntry", link: "tap1", mac: "02:00:00:00:00:0a" },
    hex: "28000000 1c00 0505 0000000000000000 07000000 04000000 4200 04 00 0a000200 02000000000a 0000",
  },
];

describe("a link change", () => {
  test.each(ROWS)("is printed and encoded: $words", ({ command: words, change, hex }) => {
    expect(printLinkChange(change)).toBe(words);
    expect(toHex(change)).toBe(hex.replaceAll(" ", ""));
  });

  test("with an invalid IP address fails", () => {
    const change = { op: "addAddress", link: "tap1", address: "x", flags: [] } as const;
    expect(() => toHex(change)).toThrow('"x" is not an IP address');
  });
});
