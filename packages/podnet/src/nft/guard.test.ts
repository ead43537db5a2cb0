// SPDX-License-Identifier: Apache-2.0
import type { SendGuard } from "@patchbay/core";
import { describe, expect, test } from "vitest";
import { guardTable } from "./guard.ts";
import { tableText } from "./table.ts";

const MAC = "02:00:00:00:5e:01";
const GUARD: SendGuard = { macs: [MAC], serves: false };
const OWN: SendGuard = { ...GUARD, addresses: ["10.9.0.1", "fd09::1", "fe80::ff:fe00:5e01"] };

/** Rules of a chain of the table for a guard. */
function rulesOf(guard: SendGuard, chain: string): readonly string[] {
  const found = guardTable("tap1", guard).chains.find(({ name }) => name === chain);
  return found?.rules ?? [];
}

describe("what a guest may send", () => {
  test("is judged at its tap, and ends there when no rule lets it through", () => {
    const text = tableText(guardTable("tap1", OWN));
    expect(text).toContain("table netdev patchbay-tap1 {");
    expect(text).toContain('type filter hook ingress device "tap1" priority filter; policy drop;');
  });

  test("comes from the MACs that it has, and never is a word between switches", () => {
    const macs = [MAC, "00:00:5e:00:01:0a"];
    expect(rulesOf({ ...OWN, macs }, "from-guest")).toEqual([
      "ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop",
      "ether daddr 01:00:0c:cc:cc:cc drop",
      "ether daddr 01:00:0c:cc:cc:cd drop",
      `ether saddr ${MAC} goto of-guest`,
      "ether saddr 00:00:5e:00:01:0a goto of-guest",
    ]);
    expect(rulesOf({ ...OWN, macs }, "arp-sender").slice(4)).toEqual([
      `arp saddr ether ${MAC} goto arp-address`,
      "arp saddr ether 00:00:5e:00:01:0a goto arp-address",
    ]);
  });

  test.each<[string, readonly string[]]>([
    [
      "arp-address",
      ["arp saddr ip 10.9.0.1 accept", "arp saddr ip 0.0.0.0 arp daddr ip 10.9.0.1 accept"],
    ],
    [
      "ipv4",
      [
        "udp sport 67 drop",
        "udp dport 68 drop",
        "meta protocol ip igmp type membership-query drop",
        "ip saddr 10.9.0.1 accept",
        "ip saddr 0.0.0.0 udp dport 67 accept",
      ],
    ],
    [
      "nd-target",
      [
        "@th,64,128 0xfd090000000000000000000000000001 goto ipv6-source",
        "@th,64,128 0xfe80000000000000000000fffe005e01 goto ipv6-source",
      ],
    ],
    [
      "ipv6-source",
      [
        "ip6 saddr fd09::1 accept",
        "ip6 saddr fe80::ff:fe00:5e01 accept",
        "ip6 saddr :: icmpv6 type nd-neighbor-solicit accept",
      ],
    ],
  ])("claims its own addresses only: %s", (chain, want) => {
    expect(rulesOf(OWN, chain)).toEqual(want);
  });

  test("may be any address where its addresses are not known, and tagged then", () => {
    expect(rulesOf(GUARD, "of-guest").slice(-3)).toEqual([
      "ether type 8021ad drop",
      "vlan id 0 drop",
      "accept",
    ]);
    expect(rulesOf(GUARD, "arp-sender").at(-1)).toBe(`arp saddr ether ${MAC} accept`);
    expect(rulesOf(GUARD, "ipv4").at(-1)).toBe("accept");
    expect(rulesOf(GUARD, "ipv6").at(-1)).toBe("accept");
    expect(rulesOf(OWN, "of-guest")).not.toContain("accept");
  });

  test("is told without a name that a machine would have to look up", () => {
    expect(rulesOf(OWN, "ipv6")).toContain("ip6 saddr :: meta l4proto 58 accept");
    const words = guardTable("tap1", OWN).chains.flatMap(({ rules }) => rules);
    expect(
      words.filter((rule) => /l4proto [a-z]|(?<!meta )(protocol|nexthdr) [a-z]/.test(rule)),
    ).toEqual([]);
  });

  test("shows in its first fragment what it begins", () => {
    const hidden = ["0", "43", "44", "51", "60"].map((header) => `frag nexthdr ${header} drop`);
    const own = [...hidden, "frag frag-off != 0 goto ipv6-source"];
    expect(rulesOf(OWN, "ipv6").slice(0, own.length)).toEqual(own);
    expect(rulesOf(GUARD, "ipv6")[hidden.length]).toBe("frag frag-off != 0 accept");
  });

  test("names no other MAC in words of neighbour discovery and in RARP", () => {
    expect(rulesOf(OWN, "nd-solicit")).toEqual([
      "ip6 length 24 goto nd-solicit-source",
      "ip6 length 32 @th,192,64 0x101020000005e01 goto nd-solicit-source",
      "ip6 length 32 @th,192,8 0xe goto nd-solicit-source",
    ]);
    expect(rulesOf(GUARD, "nd-advert")[1]).toBe(
      "ip6 length 32 @th,192,64 0x201020000005e01 accept",
    );
    expect(rulesOf(OWN, "nd-router")[1]).toBe(
      "ip6 length 16 @th,64,64 0x101020000005e01 goto nd-router-source",
    );
    expect(rulesOf(OWN, "of-guest")).toContain(
      "ether type 0x8035 @nh,0,112 0x1080006040003020000005e01 @nh,144,48 0x20000005e01 accept",
    );
  });

  test("is what a server and a router send where it may serve", () => {
    expect(rulesOf({ ...GUARD, serves: true }, "ipv4")).toEqual(["accept"]);
    expect(rulesOf({ ...GUARD, serves: true }, "ipv6")).toEqual(["accept"]);
  });

  test.each<[string, string]>([
    ["fe80::1/10", "@th,64,16 & 0xffc0 == 0xfe80 goto ipv6-source"],
    ["fd09::/64", "@th,64,64 0xfd09000000000000 goto ipv6-source"],
    [
      "fd09::/121",
      `@th,64,128 & 0x${"f".repeat(30)}80 == 0xfd09${"0".repeat(28)} goto ipv6-source`,
    ],
  ])("may be of a prefix: %s", (address, want) => {
    expect(rulesOf({ ...GUARD, addresses: [address] }, "nd-target")).toEqual([want]);
  });

  test("spells prefixes as the kernel prints them", () => {
    const addresses = ["10.9.0.77/24", "FE80:0::1/10"];
    expect(rulesOf({ ...GUARD, addresses }, "arp-address")[0]).toBe(
      "arp saddr ip 10.9.0.0/24 accept",
    );
    expect(rulesOf({ ...GUARD, addresses }, "ipv6-source")[0]).toBe("ip6 saddr fe80::/10 accept");
  });

  test.each(["", "10.9.0.1; drop", "::/0", "10.9.0"])("%j is no address of a guest", (address) => {
    expect(() => guardTable("tap1", { ...GUARD, addresses: [address] })).toThrow(
      "is no IP address",
    );
  });
});
