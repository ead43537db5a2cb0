// SPDX-License-Identifier: Apache-2.0
import type { SendGuard } from "@patchbay/core/nics";
import { describe, expect, test } from "vitest";
import { buildGuardTable } from "./guard.ts";
import { printTable } from "./table.ts";

const MAC = "02:00:00:00:5e:01";
const GUARD: SendGuard = { macs: [MAC], allowsServers: false };
const OWN: SendGuard = { ...GUARD, addresses: ["10.9.0.1", "fd09::1", "fe80::ff:fe00:5e01"] };

/** Rules of a chain of the table for a guard; that those count which refuse is told in refusals.test.ts. */
function listRules(guard: SendGuard, chain: string): readonly string[] {
  const found = buildGuardTable("tap1", guard).chains.find(({ name }) => name === chain);
  const rules = found?.rules ?? [];
  return rules
    .filter((rule) => rule !== "counter drop")
    .map((rule) => rule.replace("counter drop", "drop"));
}

describe("the frames that a guest may send", () => {
  test("are filtered at its tap, and dropped unless a rule accepts them", () => {
    const text = printTable(buildGuardTable("tap1", OWN));
    expect(text).toContain("table netdev patchbay-tap1 {");
    expect(text).toContain('type filter hook ingress device "tap1" priority filter; policy drop;');
  });

  test("have its own MACs, and are not control frames between switches", () => {
    const macs = [MAC, "00:00:5e:00:01:0a"];
    expect(listRules({ ...OWN, macs }, "from-guest")).toEqual([
      "ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop",
      "ether daddr 01:00:0c:cc:cc:cc drop",
      "ether daddr 01:00:0c:cc:cc:cd drop",
      `ether saddr ${MAC} goto of-guest`,
      "ether saddr 00:00:5e:00:01:0a goto of-guest",
    ]);
    expect(listRules({ ...OWN, macs }, "arp-sender").slice(4)).toEqual([
      `arp saddr ether ${MAC} goto arp-address`,
      "arp saddr ether 00:00:5e:00:01:0a goto arp-address",
    ]);
  });

  test.each<[string, readonly string[]]>([
    [
      "arp-address",
      ["arp saddr ip 10.9.0.1 accept", "arp saddr ip 0.0.0.0 arp daddr ip 10.9.0.1 accept"],
    ],
    ["ipv4-source", ["ip saddr 10.9.0.1 accept", "ip saddr 0.0.0.0 udp dport 67 accept"]],
    [
      "nd-target",
      [
        "@nh,384,128 0xfd090000000000000000000000000001 goto ipv6-source",
        "@nh,384,128 0xfe80000000000000000000fffe005e01 goto ipv6-source",
      ],
    ],
    [
      "ipv6-source",
      [
        "ip6 saddr fd09::1 accept",
        "ip6 saddr fe80::ff:fe00:5e01 accept",
        "ip6 nexthdr 58 ip6 saddr :: @nh,320,8 0x87 accept",
      ],
    ],
  ])("claim its own addresses only: %s", (chain, want) => {
    expect(listRules(OWN, chain)).toEqual(want);
  });

  test("may have any address if its addresses are unknown, but no second tag", () => {
    expect(listRules(GUARD, "of-guest").slice(4)).toEqual([
      "ether type 8021ad drop",
      "vlan id 0 drop",
      "@ll,96,16 < 0x600 @ll,112,48 0xaaaa03000000 drop",
      "@ll,96,16 < 0x600 @ll,112,48 0xaaaa030000f8 drop",
      "accept",
    ]);
    expect(listRules(GUARD, "arp-sender").at(-1)).toBe(`arp saddr ether ${MAC} accept`);
    for (const chain of ["ipv4-source", "ipv6-source", "nd-source", "nd-probe", "nd-target"]) {
      expect(listRules(GUARD, chain)).toEqual(["accept"]);
    }
    expect(listRules(OWN, "of-guest")).not.toContain("accept");
  });

  test("are matched by rules without names that must be resolved", () => {
    const allRules = buildGuardTable("tap1", OWN).chains.flatMap(({ rules }) => rules);
    expect(allRules.filter((rule) => /l4proto [a-z]|(protocol|nexthdr) [a-z]/.test(rule))).toEqual(
      allRules.filter((rule) => rule.startsWith("meta protocol ip igmp type ")),
    );
  });

  test("contain its own MACs as link-layer addresses, in messages without room for others", () => {
    const macs = [MAC, "00:00:5e:00:01:0a"];
    expect(listRules({ ...OWN, macs }, "nd-solicits")).toEqual([
      "ip6 length 24 goto nd-probe",
      "ip6 length 32 @nh,512,64 0x101020000005e01 goto nd-probe",
      "ip6 length 32 @nh,512,64 0x10100005e00010a goto nd-probe",
      "ip6 length 32 @nh,512,16 0xe01 goto nd-probe",
    ]);
    expect(listRules(OWN, "nd-advertises")).toEqual([
      "ip6 length 24 goto nd-target",
      "ip6 length 32 @nh,512,64 0x201020000005e01 goto nd-target",
    ]);
    expect(listRules(OWN, "nd-asks-router")).toEqual([
      "ip6 length 8 goto nd-source",
      "ip6 length 16 @nh,384,64 0x101020000005e01 goto nd-source",
    ]);
    expect(listRules({ ...OWN, macs }, "rarp")).toEqual([
      "@nh,0,112 0x1080006040003020000005e01 @nh,112,112 0x20000005e0100000000 accept",
      "@nh,0,112 0x108000604000300005e00010a @nh,112,112 0x5e00010a00000000 accept",
    ]);
  });

  test("have one header in fragments, and are unfragmented if the kernel looks for the last header", () => {
    expect(listRules(OWN, "ipv6-fragment")).toEqual([
      "@nh,320,8 0x0 drop",
      "@nh,320,8 0x2b drop",
      "@nh,320,8 0x3c drop",
      "@nh,320,8 0x2c drop",
      "@nh,320,8 0x33 drop",
      "@nh,320,8 0x67 drop",
      "@nh,320,8 0x11 @nh,336,16 & 0xfff8 == 0x0 goto ipv6-first-udp",
      "@nh,320,8 0x3a @nh,336,16 & 0xfff8 == 0x0 goto ipv6-first-icmp",
      "goto ipv6-source",
    ]);
    expect(listRules(OWN, "ipv6-behind")[0]).toBe("meta length > 2048 drop");
  });

  test("include those of a DHCP server and a router if it may serve", () => {
    const serving = { ...GUARD, allowsServers: true };
    expect(listRules(serving, "ipv4")).toEqual(["goto ipv4-source"]);
    const text = printTable(buildGuardTable("tap1", serving));
    expect(text).not.toMatch(/547|0x223|frag|length > /);
    // 134 and 137 are not among what leads to a drop; neighbours' words are judged as ever.
    expect(listRules(serving, "ipv6-icmp")).toEqual([
      "@nh,320,8 0x85 goto nd-asks-router",
      "@nh,320,8 0x87 goto nd-solicits",
      "@nh,320,8 0x88 goto nd-advertises",
      "goto nd-source",
    ]);
    expect(listRules(serving, "ipv6").join()).not.toContain("drop");
  });

  test.each<[string, string]>([
    ["fe80::1/10", "@nh,384,16 & 0xffc0 == 0xfe80 goto ipv6-source"],
    ["fd09::/64", "@nh,384,64 0xfd09000000000000 goto ipv6-source"],
    [
      "fd09::/121",
      `@nh,384,128 & 0x${"f".repeat(30)}80 == 0xfd09${"0".repeat(28)} goto ipv6-source`,
    ],
  ])("may have addresses of a prefix: %s", (address, want) => {
    expect(listRules({ ...GUARD, addresses: [address] }, "nd-target")).toEqual([want]);
  });

  test("are matched by prefixes in the kernel's notation", () => {
    const addresses = ["10.9.0.77/24", "FE80:0::1/10"];
    expect(listRules({ ...GUARD, addresses }, "arp-address")[0]).toBe(
      "arp saddr ip 10.9.0.0/24 accept",
    );
    expect(listRules({ ...GUARD, addresses }, "ipv6-source")[0]).toBe("ip6 saddr fe80::/10 accept");
  });

  test.each(["", "10.9.0.1; drop", "::/0", "10.9.0"])(
    "rejects %j as a guest's address",
    (address) => {
      expect(() => buildGuardTable("tap1", { ...GUARD, addresses: [address] })).toThrow(
        "is not an IP address",
      );
    },
  );
});
