// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { buildAnswersTable, type AnswersWiring } from "./answers.ts";

const WIRING: AnswersWiring = {
  bridgeName: "k6t-1",
  podInterfaceName: "pod1",
  tapName: "tap1",
  bridgeMac: "5e:00:00:00:00:01",
  answers: { addresses: ["169.254.75.10/32"] },
};
const IPV6 = { addresses: ["fd09::/64"], gatewayMac: "02:00:00:00:00:09" };

function listRules(wiring: AnswersWiring, chain: string): readonly string[] {
  return buildAnswersTable(wiring).chains.find(({ name }) => name === chain)?.rules ?? [];
}

test("with IPv4, DHCP stays between guest and pod, and the bridge handles no other packets", () => {
  expect(listRules(WIRING, "inward")).toEqual([]);
  expect(listRules(WIRING, "through")).toEqual([
    'iifname "pod1" udp sport 67 drop',
    'oifname "pod1" udp dport 67 drop',
  ]);
  expect(listRules(WIRING, "heard")).toEqual([
    'iifname "tap1" udp dport 67 counter accept',
    'iifname "tap1" drop',
    'iifname "pod1" drop',
  ]);
  expect(listRules(WIRING, "said")).toEqual(['oifname "pod1" drop']);
});

test("with IPv6, foreign routers are ignored, and packets for the router go to the gateway", () => {
  const toBridge = 'iifname "tap1" ether daddr 5e:00:00:00:00:01';
  expect(listRules({ ...WIRING, answers: IPV6 }, "inward")).toEqual([
    `${toBridge} ip6 daddr fe80::/10 accept`,
    `${toBridge} ip6 daddr fd09:: accept`,
    `${toBridge} ether type ip6 ether daddr set 02:00:00:00:00:09`,
  ]);
  expect(listRules({ ...WIRING, answers: IPV6 }, "through")).toEqual([
    'iifname "pod1" udp sport 547 drop',
    'iifname "pod1" icmpv6 type nd-router-advert drop',
    'oifname "pod1" udp dport 547 drop',
    'oifname "pod1" icmpv6 type nd-router-solicit drop',
  ]);
});

test("for permanent neighbors, the bridge answers ARP and forwards by the longest prefix", () => {
  const neighbors = [
    {
      address: "169.254.1.1",
      mac: "02:00:00:00:00:09",
      destinations: ["169.254.1.1/32", "0.0.0.0/0", "10.50.0.0/16"],
    },
    { address: "10.50.0.9", mac: "02:00:00:00:00:0a", destinations: ["10.50.0.9/32"] },
  ];
  const arp = { guestAddress: "10.9.0.5", neighbors };
  const addresses = ["169.254.75.10/32", "169.254.1.1/32", "10.50.0.9/32"];
  const wiring = { ...WIRING, answers: { addresses, arp } };
  const toBridge = 'iifname "tap1" ether daddr 5e:00:00:00:00:01';
  expect(listRules(wiring, "inward")).toEqual([
    'iifname "tap1" arp operation request arp daddr ip 169.254.1.1 arp saddr ip set 0.0.0.0 accept',
    'iifname "tap1" arp operation request arp daddr ip 10.50.0.9 arp saddr ip set 0.0.0.0 accept',
    `${toBridge} ip daddr 169.254.75.10 accept`,
    `${toBridge} ip daddr 169.254.1.1 ether daddr set 02:00:00:00:00:09 accept`,
    `${toBridge} ip daddr 10.50.0.9 ether daddr set 02:00:00:00:00:0a accept`,
    `${toBridge} ip daddr 10.50.0.0/16 ether daddr set 02:00:00:00:00:09 accept`,
    `${toBridge} ether type ip ether daddr set 02:00:00:00:00:09 accept`,
  ]);
  expect(listRules(wiring, "through")).toContain('oifname "pod1" arp daddr ip 169.254.1.1 drop');
  expect(listRules(wiring, "heard")).toContain(
    'iifname "tap1" arp operation request arp daddr ip 169.254.1.1 accept',
  );
  expect(listRules(wiring, "said")).toEqual([
    'oifname "pod1" drop',
    "arp operation reply arp daddr ip 0.0.0.0 arp daddr ip set 10.9.0.5",
  ]);
});

test("for permanent IPv6 neighbors, the bridge answers solicitations and forwards by the longest prefix", () => {
  const solicited = [
    {
      address: "fe80::1",
      mac: "02:00:00:00:00:0a",
      destinations: ["fe80::1/128", "::/0", "fd50::/32"],
    },
    {
      address: "fd09::2",
      mac: "02:00:00:00:00:0b",
      destinations: ["fd09::2/128", "fd50:1::/64", "fd51::9/128"],
    },
  ];
  const addresses = ["fd09::/64", "fe80::1/128", "fd09::2/128"];
  const wiring = { ...WIRING, answers: { addresses, gatewayMac: IPV6.gatewayMac, solicited } };
  const toBridge = 'iifname "tap1" ether daddr 5e:00:00:00:00:01';
  const redirect = (destination: string, last: string) =>
    `${toBridge} ip6 daddr ${destination} ether daddr set 02:00:00:00:00:${last} accept`;
  expect(listRules(wiring, "inward")).toEqual([
    `${toBridge} icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept`,
    redirect("fe80::1", "0a"),
    redirect("fd09::2", "0b"),
    redirect("fd51::9", "0b"),
    `${toBridge} ip6 daddr fe80::/10 accept`,
    `${toBridge} ip6 daddr fd09:: accept`,
    redirect("fd50:1::/64", "0b"),
    redirect("fd50::/32", "0a"),
    `${toBridge} ether type ip6 ether daddr set 02:00:00:00:00:0a`,
  ]);
  const direct = [{ address: "fd09::2", mac: "02:00:00:00:00:0b", destinations: ["fd09::2/128"] }];
  const answers = { addresses: ["fd09::/64", "fd09::2/128"], solicited: direct };
  expect(listRules({ ...WIRING, answers }, "inward")).toEqual([
    `${toBridge} icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept`,
    redirect("fd09::2", "0b"),
    `${toBridge} ip6 daddr fe80::/10 accept`,
    `${toBridge} ip6 daddr fd09:: accept`,
  ]);
});

test("without a gateway forwards nothing", () => {
  const answers = { addresses: ["169.254.75.10/32", "fd09::/64"] };
  expect(listRules({ ...WIRING, answers }, "inward")).toEqual([]);
  expect(listRules({ ...WIRING, answers }, "through")).toEqual([
    'iifname "pod1" udp sport 67 drop',
    'iifname "pod1" udp sport 547 drop',
    'iifname "pod1" icmpv6 type nd-router-advert drop',
    'oifname "pod1" udp dport 67 drop',
    'oifname "pod1" udp dport 547 drop',
    'oifname "pod1" icmpv6 type nd-router-solicit drop',
  ]);
});
