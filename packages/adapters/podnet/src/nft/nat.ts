// SPDX-License-Identifier: Apache-2.0
// Translation between a guest's addresses and the pod's, as rules. Why each: docs/design/masquerade.md.
import type { ForwardedPorts, MasqueradeWiring, NatSubnet } from "@patchbay/core";
import { DHCP_REQUESTS } from "./dhcp-requests.ts";
import type { Chain, Hook, Table, TableName } from "./table.ts";

/** What the rules are made from. */
export type NatWiring = Pick<
  MasqueradeWiring,
  "podInterfaceName" | "bridgeName" | "ipv4" | "ipv6" | "ports"
>;

/** One subnet, in the words of nft for its family. */
interface Side {
  readonly word: "ip" | "ip6";
  readonly gateway: string;
  readonly guest: string;
}

/** The table of the pod NIC of that name. */
export function natNameOf(podInterfaceName: string): TableName {
  return { family: "inet", name: `patchbay-${podInterfaceName}` };
}

/** Where a program in the pod asks the guest; the kernel routes no answer to `::1` in from another link. */
const LOOPBACK = "127.0.0.1";

function isIpv4({ word }: Side): boolean {
  return word === "ip";
}

function sideOf(subnet: NatSubnet | undefined, word: Side["word"]): readonly Side[] {
  if (subnet === undefined) return [];
  return [{ word, gateway: subnet.gateway.split("/")[0] ?? "", guest: subnet.guest }];
}

function sidesOf({ ipv4, ipv6 }: NatWiring): readonly Side[] {
  return [...sideOf(ipv4, "ip"), ...sideOf(ipv6, "ip6")];
}

/** Nothing for all ports, else a match for each. */
function portMatches(ports: readonly ForwardedPorts[]): readonly string[] {
  if (ports.length === 0) return [""];
  return ports.map(({ protocol, first, last }) => {
    const range = first === last ? String(first) : `${String(first)}-${String(last)}`;
    return `${protocol} dport ${range} `;
  });
}

/** Rules of the first hook: addresses that nobody has a reason to ask for from that side. */
function dropRules(
  { podInterfaceName, bridgeName, ipv4 }: NatWiring,
  sides: readonly Side[],
): readonly string[] {
  // The bridge takes 127.0.0.0/8 for an address like others (route_localnet), for answers only.
  const own = ipv4 === undefined ? [] : [`iifname "${bridgeName}" ip daddr 127.0.0.0/8 drop`];
  // Who knows the guest's own address would come in past the list of ports.
  const past = sides.map(
    ({ word, guest }) => `iifname "${podInterfaceName}" ${word} daddr ${guest} drop`,
  );
  return [...own, ...past];
}

/** Nothing is forwarded but between the guest and its own NIC of the pod, however many others the pod has. */
function betweenRules({ podInterfaceName, bridgeName }: NatWiring): readonly string[] {
  return [
    `iifname "${bridgeName}" oifname != "${podInterfaceName}" drop`,
    `iifname != "${podInterfaceName}" oifname "${bridgeName}" drop`,
    `iifname "${podInterfaceName}" oifname != "${bridgeName}" drop`,
    `iifname != "${bridgeName}" oifname "${podInterfaceName}" drop`,
  ];
}

/** Counts the guest's DHCP requests for the doctor; accepts everything. */
function heardRules({ bridgeName, ipv4, ipv6 }: NatWiring): readonly string[] {
  const matches = [
    ...(ipv4 === undefined ? [] : [DHCP_REQUESTS.ipv4]),
    ...(ipv6 === undefined ? [] : [DHCP_REQUESTS.ipv6]),
  ];
  return matches.map((match) => `iifname "${bridgeName}" ${match} counter`);
}

function hookOf(type: Hook["type"], at: string): Pick<Chain, "hook"> {
  return { hook: { type, at, policy: "accept" } };
}

/** Rules that lead to the guest, for each port of each family. */
function inwardRules(wiring: NatWiring, sides: readonly Side[], match: string): readonly string[] {
  return sides.flatMap((side) =>
    portMatches(wiring.ports).map((port) => `${match} ${port}dnat ${side.word} to ${side.guest}`),
  );
}

/** Rules that hide the guest behind the pod, and a program in the pod that asks its loopback behind the gateway. */
function outwardRules(wiring: NatWiring, sides: readonly Side[]): readonly string[] {
  const { podInterfaceName, bridgeName } = wiring;
  const hiding = sides.map(
    ({ word, guest }) => `oifname "${podInterfaceName}" ${word} saddr ${guest} masquerade`,
  );
  const asGateway = sides
    .filter(isIpv4)
    .map(({ gateway }) => `oifname "${bridgeName}" ip saddr ${LOOPBACK} snat ip to ${gateway}`);
  return [...hiding, ...asGateway];
}

/** The table that lets the guest out behind the pod's addresses, and what is sent to the pod's ports in to the guest. */
export function natTable(wiring: NatWiring): Table {
  const nic = wiring.podInterfaceName;
  const sides = sidesOf(wiring);
  // What is for the pod itself: not what the network sends to all.
  const toPod = `iifname "${nic}" meta pkttype host`;
  const toLoopback = `ip daddr ${LOOPBACK}`;
  return {
    ...natNameOf(nic),
    chains: [
      {
        name: "early",
        ...hookOf("filter", "prerouting priority raw"),
        rules: dropRules(wiring, sides),
      },
      {
        name: "inward",
        ...hookOf("nat", "prerouting priority dstnat"),
        rules: inwardRules(wiring, sides, toPod),
      },
      {
        name: "loopback",
        ...hookOf("nat", "output priority -100"),
        rules: inwardRules(wiring, sides.filter(isIpv4), toLoopback),
      },
      {
        name: "outward",
        ...hookOf("nat", "postrouting priority srcnat"),
        rules: outwardRules(wiring, sides),
      },
      {
        name: "between",
        ...hookOf("filter", "forward priority filter"),
        rules: betweenRules(wiring),
      },
      {
        name: "heard",
        ...hookOf("filter", "input priority filter"),
        rules: heardRules(wiring),
      },
    ],
  };
}
