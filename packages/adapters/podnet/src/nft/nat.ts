// SPDX-License-Identifier: Apache-2.0
// nftables rules that translate addresses between a guest and its pod. docs/design/masquerade.md explains them.
import type { ForwardedPorts, MasqueradeWiring, NatSubnet } from "@patchbay/core/nics";
import { DHCP_REQUESTS } from "./counters.ts";
import type { Chain, Hook, Table, TableName } from "./table.ts";

export type NatWiring = Pick<
  MasqueradeWiring,
  "podInterfaceName" | "bridgeName" | "ipv4" | "ipv6" | "ports" | "mesh"
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

/** Source address of connections from Istio's sidecar to the application. Source: Istio "Understanding traffic routing". */
const SIDECAR = "127.0.0.6";
/** Source IP of kubelet probes in Istio's ambient mode. No proxy intercepts them. Source: Istio "Ambient and Kubernetes NetworkPolicy". */
const AMBIENT_PROBES = "169.254.7.127";
/** TCP ports of Istio's proxy. Source: Istio "Application requirements". */
const PROXY_PORTS = [15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090];
/** TCP port of SSH, which bypasses the proxy. Source: KubeVirt pkg/network/istio/ports.go. */
const DIRECT_PORT = 22;

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
  // Drops packets from the network to the guest's own address, because they would bypass the list of forwarded ports.
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

/** Leaves TCP connections to Istio's rules, which redirect them to the proxy. This NAT still handles SSH and the probes of ambient mode. */
function buildProxyRules({ mesh, podInterfaceName }: NatWiring): readonly string[] {
  if (mesh === undefined) return [];
  return [`ip saddr != ${AMBIENT_PROBES}`, "meta nfproto ipv6"].map(
    (match) => `iifname "${podInterfaceName}" ${match} tcp dport != ${String(DIRECT_PORT)} return`,
  );
}

/**
 * Redirects IPv4 connections from programs in the pod to the guest, if they are addressed to 127.0.0.1 or, with Istio, to the
 * pod's address. Connections to the ports of Istio's proxy are not redirected.
 */
function buildLoopbackRules(wiring: NatWiring, sides: readonly NatSide[]): readonly string[] {
  const { mesh } = wiring;
  const addresses = [LOOPBACK, ...(mesh?.podIpv4 === undefined ? [] : [mesh.podIpv4])];
  return [
    ...(mesh === undefined ? [] : [`tcp dport { ${PROXY_PORTS.join(", ")} } return`]),
    ...addresses.flatMap((address) =>
      buildInwardRules(wiring, sides.filter(isIpv4), `ip daddr ${address}`),
    ),
  ];
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

/** Translates the guest's source address to the pod's, and the pod's local source addresses to the gateway's, so that a guest can reply. */
function buildOutwardRules(wiring: NatWiring, sides: readonly NatSide[]): readonly string[] {
  const { podInterfaceName, bridgeName } = wiring;
  const masqueradeRules = sides.map(
    ({ family, guest }) => `oifname "${podInterfaceName}" ${family} saddr ${guest} masquerade`,
  );
  const localSources = [LOOPBACK, ...(wiring.mesh ? [SIDECAR, AMBIENT_PROBES] : [])];
  const gatewayRules = sides
    .filter(isIpv4)
    .flatMap(({ gateway }) =>
      localSources.map(
        (source) => `oifname "${bridgeName}" ip saddr ${source} snat ip to ${gateway}`,
      ),
    );
  return [...masqueradeRules, ...gatewayRules];
}

export function buildNatTable(wiring: NatWiring): Table {
  const nic = wiring.podInterfaceName;
  const sides = listSides(wiring);
  const toPod = `iifname "${nic}" meta pkttype host`;
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
        rules: [...buildProxyRules(wiring), ...buildInwardRules(wiring, sides, toPod)],
      },
      {
        name: "loopback",
        ...buildAcceptHook("nat", "output priority -100"),
        rules: buildLoopbackRules(wiring, sides),
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
