// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { buildNatTable, type NatWiring } from "./nat.ts";
import { printTable } from "./table.ts";

const IPV4 = { gateway: "10.0.2.1/24", guest: "10.0.2.2" };
const IPV6 = { gateway: "fd10:0:2::1/120", guest: "fd10:0:2::2" };
const NEITHER: NatWiring = { podInterfaceName: "eth0", bridgeName: "k6t-eth0", ports: [] };
const WIRING: NatWiring = { ...NEITHER, ipv4: IPV4, ipv6: IPV6 };

function listRules(wiring: NatWiring, chain: string): readonly string[] {
  return buildNatTable(wiring).chains.find(({ name }) => name === chain)?.rules ?? [];
}

describe("masquerade", () => {
  test("hides the guest behind the pod in both families, and forwards all ports", () => {
    expect(printTable(buildNatTable(WIRING)).replaceAll("\t", "  ")).toMatchInlineSnapshot(`
      "table inet patchbay-eth0 {
        chain early {
          type filter hook prerouting priority raw; policy accept;
          iifname "k6t-eth0" ip daddr 127.0.0.0/8 drop
          iifname "eth0" ip daddr 10.0.2.2 drop
          iifname "eth0" ip6 daddr fd10:0:2::2 drop
        }
        chain inward {
          type nat hook prerouting priority dstnat; policy accept;
          iifname "eth0" meta pkttype host dnat ip to 10.0.2.2
          iifname "eth0" meta pkttype host dnat ip6 to fd10:0:2::2
        }
        chain loopback {
          type nat hook output priority -100; policy accept;
          ip daddr 127.0.0.1 dnat ip to 10.0.2.2
        }
        chain outward {
          type nat hook postrouting priority srcnat; policy accept;
          oifname "eth0" ip saddr 10.0.2.2 masquerade
          oifname "eth0" ip6 saddr fd10:0:2::2 masquerade
          oifname "k6t-eth0" ip saddr 127.0.0.1 snat ip to 10.0.2.1
        }
        chain between {
          type filter hook forward priority filter; policy accept;
          iifname "k6t-eth0" oifname != "eth0" drop
          iifname != "eth0" oifname "k6t-eth0" drop
          iifname "eth0" oifname != "k6t-eth0" drop
          iifname != "k6t-eth0" oifname "eth0" drop
        }
        chain heard {
          type filter hook input priority filter; policy accept;
          iifname "k6t-eth0" udp dport 67 counter
          iifname "k6t-eth0" udp dport 547 counter
        }
      }"
    `);
  });

  test("has rules of one family only if the pod has only one", () => {
    expect(printTable(buildNatTable({ ...NEITHER, ipv4: IPV4 }))).not.toContain("ip6");
    expect(printTable(buildNatTable({ ...NEITHER, ipv6: IPV6 }))).not.toMatch(/\bip /);
  });

  test("leaves TCP and the proxy's ports to a service mesh's proxy", () => {
    const ports = [{ protocol: "tcp", first: 80, last: 80 }] as const;
    const meshed = { ...WIRING, ports, mesh: { podIpv4: "10.88.0.5" } };
    expect(listRules(meshed, "inward").slice(0, 2)).toEqual([
      'iifname "eth0" ip saddr != 169.254.7.127 tcp dport != 22 return',
      'iifname "eth0" meta nfproto ipv6 tcp dport != 22 return',
    ]);
    expect(listRules(meshed, "loopback")).toEqual([
      "tcp dport { 15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090 } return",
      "ip daddr 127.0.0.1 tcp dport 80 dnat ip to 10.0.2.2",
      "ip daddr 10.88.0.5 tcp dport 80 dnat ip to 10.0.2.2",
    ]);
    expect(listRules(meshed, "outward").slice(-2)).toEqual([
      'oifname "k6t-eth0" ip saddr 127.0.0.6 snat ip to 10.0.2.1',
      'oifname "k6t-eth0" ip saddr 169.254.7.127 snat ip to 10.0.2.1',
    ]);
  });

  test("forwards the listed ports and port ranges from the network and from the pod", () => {
    const ports = [
      { protocol: "tcp", first: 80, last: 80 },
      { protocol: "udp", first: 5000, last: 5010 },
    ] as const;
    expect(listRules({ ...NEITHER, ipv4: IPV4, ports }, "inward")).toEqual([
      'iifname "eth0" meta pkttype host tcp dport 80 dnat ip to 10.0.2.2',
      'iifname "eth0" meta pkttype host udp dport 5000-5010 dnat ip to 10.0.2.2',
    ]);
    expect(listRules({ ...NEITHER, ipv4: IPV4, ports }, "loopback")).toEqual([
      "ip daddr 127.0.0.1 tcp dport 80 dnat ip to 10.0.2.2",
      "ip daddr 127.0.0.1 udp dport 5000-5010 dnat ip to 10.0.2.2",
    ]);
  });
});
