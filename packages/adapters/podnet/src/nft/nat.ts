// SPDX-License-Identifier: Apache-2.0
// nftables rules that translate addresses between a guest and its pod. docs/design/masquerade.md explains them.
import type { ForwardedPorts, MasqueradeWiring, NatSubnet } from "@patchbay/core/nics";
import { DHCP_REQUESTS } from "./counters.ts";
import type { Chain, Hook, Table, TableName } from "./table.ts";

export type NatWiring = Pick<
  MasqueradeWiring,
  "podInterfaceName" | "bridgeName" | "ipv4" | "ipv6" | "ports"
>;

interface NatSide {
  readonly family: "ip" | "ip6";
  readonly gateway: string;
  readonly guest: string;
}

export function natTableName(podInterfaceName: string): TableName {
  return { family: "inet", name: `patchbay-${podInterfaceName}` };
}

/** Programs in the pod reach the guest at this address. IPv6 has no such address, because the kernel drops packets to `::1` from a link. */
const LOOPBACK = "127.0.0.1";

function isIpv4({ family }: NatSide): boolean {
  return family === "ip";
}

function toSide(subnet: NatSubnet | undefined, family: NatSide["family"]): readonly NatSide[] {
  if (subnet === undefined) return [];
  return [{ family, gateway: subnet.gateway.split("/")[0] ?? "", guest: subnet.guest }];
}

function listSides({ ipv4, ipv6 }: NatWiring): readonly NatSide[] {
  return [...toSide(ipv4, "ip"), ...toSide(ipv6, "ip6")];
}

function buildPortMatches(ports: readonly ForwardedPorts[]): readonly string[] {
  if (ports.length === 0) return [""];
  return ports.map(({ protocol, first, last }) => {
    const range = first === last ? String(first) : `${String(first)}-${String(last)}`;
    return `${protocol} dport ${range} `;
  });
}

function buildDropRules(
  { podInterfaceName, bridgeName, ipv4 }: NatWiring,
  sides: readonly NatSide[],
): readonly string[] {
  // Drops the guest's packets to 127.0.0.0/8, which route_localnet would deliver to the pod. The guest's answers to
  // programs in the pod are not dropped, because their destination is the gateway's address at this hook.
  const loopbackRules =
    ipv4 === undefined ? [] : [`iifname "${bridgeName}" ip daddr 127.0.0.0/8 drop`];
  // Drops packets that arrive with the guest's own address as destination, because they would bypass the list of forwarded ports.
  const guestAddressRules = sides.map(
    ({ family, guest }) => `iifname "${podInterfaceName}" ${family} daddr ${guest} drop`,
  );
  return [...loopbackRules, ...guestAddressRules];
}

/** Permits forwarding only between the guest and its pod NIC, even if the pod has more NICs. */
function buildIsolationRules({ podInterfaceName, bridgeName }: NatWiring): readonly string[] {
  return [
    `iifname "${bridgeName}" oifname != "${podInterfaceName}" drop`,
    `iifname != "${podInterfaceName}" oifname "${bridgeName}" drop`,
    `iifname "${podInterfaceName}" oifname != "${bridgeName}" drop`,
    `iifname != "${bridgeName}" oifname "${podInterfaceName}" drop`,
  ];
}

function buildCountRules({ bridgeName, ipv4, ipv6 }: NatWiring): readonly string[] {
  const matches = [
    ...(ipv4 === undefined ? [] : [DHCP_REQUESTS.ipv4]),
    ...(ipv6 === undefined ? [] : [DHCP_REQUESTS.ipv6]),
  ];
  return matches.map((match) => `iifname "${bridgeName}" ${match} counter`);
}

function buildAcceptHook(type: Hook["type"], hookPoint: string): Pick<Chain, "hook"> {
  return { hook: { type, point: hookPoint, policy: "accept" } };
}

function buildInwardRules(
  wiring: NatWiring,
  sides: readonly NatSide[],
  match: string,
): readonly string[] {
  return sides.flatMap((side) =>
    buildPortMatches(wiring.ports).map(
      (port) => `${match} ${port}dnat ${side.family} to ${side.guest}`,
    ),
  );
}

/** Translates source addresses. The guest's address becomes the pod's. The loopback address of a pod's program becomes the gateway's. */
function buildOutwardRules(wiring: NatWiring, sides: readonly NatSide[]): readonly string[] {
  const { podInterfaceName, bridgeName } = wiring;
  const masqueradeRules = sides.map(
    ({ family, guest }) => `oifname "${podInterfaceName}" ${family} saddr ${guest} masquerade`,
  );
  const gatewayRules = sides
    .filter(isIpv4)
    .map(({ gateway }) => `oifname "${bridgeName}" ip saddr ${LOOPBACK} snat ip to ${gateway}`);
  return [...masqueradeRules, ...gatewayRules];
}

export function buildNatTable(wiring: NatWiring): Table {
  const nic = wiring.podInterfaceName;
  const sides = listSides(wiring);
  const toPod = `iifname "${nic}" meta pkttype host`;
  const toLoopback = `ip daddr ${LOOPBACK}`;
  return {
    ...natTableName(nic),
    chains: [
      {
        name: "early",
        ...buildAcceptHook("filter", "prerouting priority raw"),
        rules: buildDropRules(wiring, sides),
      },
      {
        name: "inward",
        ...buildAcceptHook("nat", "prerouting priority dstnat"),
        rules: buildInwardRules(wiring, sides, toPod),
      },
      {
        name: "loopback",
        ...buildAcceptHook("nat", "output priority -100"),
        rules: buildInwardRules(wiring, sides.filter(isIpv4), toLoopback),
      },
      {
        name: "outward",
        ...buildAcceptHook("nat", "postrouting priority srcnat"),
        rules: buildOutwardRules(wiring, sides),
      },
      {
        name: "between",
        ...buildAcceptHook("filter", "forward priority filter"),
        rules: buildIsolationRules(wiring),
      },
      {
        name: "heard",
        ...buildAcceptHook("filter", "input priority filter"),
        rules: buildCountRules(wiring),
      },
    ],
  };
}
