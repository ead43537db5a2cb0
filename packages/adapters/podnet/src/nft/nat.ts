// SPDX-License-Identifier: Apache-2.0
// Address translation between a guest and its pod. Details: docs/design/masquerade.md.
import type { ForwardedPorts, MasqueradeWiring, NatSubnet } from "@patchbay/core/nics";
import { DHCP_REQUESTS } from "./counters.ts";
import type { Chain, Hook, Table, TableName } from "./table.ts";

export type NatWiring = Pick<
  MasqueradeWiring,
  "podInterfaceName" | "bridgeName" | "ipv4" | "ipv6" | "ports"
>;

interface Side {
  readonly family: "ip" | "ip6";
  readonly gateway: string;
  readonly guest: string;
}

export function natTableName(podInterfaceName: string): TableName {
  return { family: "inet", name: `patchbay-${podInterfaceName}` };
}

/** Address at which programs in the pod reach the guest. The kernel routes no answers to `::1` from another link. */
const LOOPBACK = "127.0.0.1";

function isIpv4({ family }: Side): boolean {
  return family === "ip";
}

function toSide(subnet: NatSubnet | undefined, family: Side["family"]): readonly Side[] {
  if (subnet === undefined) return [];
  return [{ family, gateway: subnet.gateway.split("/")[0] ?? "", guest: subnet.guest }];
}

function listSides({ ipv4, ipv6 }: NatWiring): readonly Side[] {
  return [...toSide(ipv4, "ip"), ...toSide(ipv6, "ip6")];
}

function portMatches(ports: readonly ForwardedPorts[]): readonly string[] {
  if (ports.length === 0) return [""];
  return ports.map(({ protocol, first, last }) => {
    const range = first === last ? String(first) : `${String(first)}-${String(last)}`;
    return `${protocol} dport ${range} `;
  });
}

function dropRules(
  { podInterfaceName, bridgeName, ipv4 }: NatWiring,
  sides: readonly Side[],
): readonly string[] {
  // With route_localnet the bridge accepts 127.0.0.0/8, which is for answers only.
  const own = ipv4 === undefined ? [] : [`iifname "${bridgeName}" ip daddr 127.0.0.0/8 drop`];
  // A peer that knows the guest's own address would bypass the list of ports.
  const bypass = sides.map(
    ({ family, guest }) => `iifname "${podInterfaceName}" ${family} daddr ${guest} drop`,
  );
  return [...own, ...bypass];
}

/** Forwards only between the guest and its own pod NIC, even if the pod has other NICs. */
function isolationRules({ podInterfaceName, bridgeName }: NatWiring): readonly string[] {
  return [
    `iifname "${bridgeName}" oifname != "${podInterfaceName}" drop`,
    `iifname != "${podInterfaceName}" oifname "${bridgeName}" drop`,
    `iifname "${podInterfaceName}" oifname != "${bridgeName}" drop`,
    `iifname != "${bridgeName}" oifname "${podInterfaceName}" drop`,
  ];
}

function countRules({ bridgeName, ipv4, ipv6 }: NatWiring): readonly string[] {
  const matches = [
    ...(ipv4 === undefined ? [] : [DHCP_REQUESTS.ipv4]),
    ...(ipv6 === undefined ? [] : [DHCP_REQUESTS.ipv6]),
  ];
  return matches.map((match) => `iifname "${bridgeName}" ${match} counter`);
}

function acceptHook(type: Hook["type"], at: string): Pick<Chain, "hook"> {
  return { hook: { type, at, policy: "accept" } };
}

function inwardRules(wiring: NatWiring, sides: readonly Side[], match: string): readonly string[] {
  return sides.flatMap((side) =>
    portMatches(wiring.ports).map((port) => `${match} ${port}dnat ${side.family} to ${side.guest}`),
  );
}

/** Translates the guest's address to the pod's, and the loopback address of programs in the pod to the gateway's. */
function outwardRules(wiring: NatWiring, sides: readonly Side[]): readonly string[] {
  const { podInterfaceName, bridgeName } = wiring;
  const hiding = sides.map(
    ({ family, guest }) => `oifname "${podInterfaceName}" ${family} saddr ${guest} masquerade`,
  );
  const asGateway = sides
    .filter(isIpv4)
    .map(({ gateway }) => `oifname "${bridgeName}" ip saddr ${LOOPBACK} snat ip to ${gateway}`);
  return [...hiding, ...asGateway];
}

export function natTable(wiring: NatWiring): Table {
  const nic = wiring.podInterfaceName;
  const sides = listSides(wiring);
  const toPod = `iifname "${nic}" meta pkttype host`;
  const toLoopback = `ip daddr ${LOOPBACK}`;
  return {
    ...natTableName(nic),
    chains: [
      {
        name: "early",
        ...acceptHook("filter", "prerouting priority raw"),
        rules: dropRules(wiring, sides),
      },
      {
        name: "inward",
        ...acceptHook("nat", "prerouting priority dstnat"),
        rules: inwardRules(wiring, sides, toPod),
      },
      {
        name: "loopback",
        ...acceptHook("nat", "output priority -100"),
        rules: inwardRules(wiring, sides.filter(isIpv4), toLoopback),
      },
      {
        name: "outward",
        ...acceptHook("nat", "postrouting priority srcnat"),
        rules: outwardRules(wiring, sides),
      },
      {
        name: "between",
        ...acceptHook("filter", "forward priority filter"),
        rules: isolationRules(wiring),
      },
      {
        name: "heard",
        ...acceptHook("filter", "input priority filter"),
        rules: countRules(wiring),
      },
    ],
  };
}
