// SPDX-License-Identifier: Apache-2.0
// nftables rules for a bridge on which the pod serves DHCP and router advertisements to its guest. The rules block
// other servers and clients, and redirect the guest's routed traffic to the network's gateway.
// docs/design/guest-addresses.md explains them.
import type { BridgeWiring } from "@patchbay/core/nics";
import { DHCP_REQUESTS } from "./counters.ts";
import type { Table, TableName } from "./table.ts";

export interface AnswersWiring extends Pick<
  BridgeWiring,
  "bridgeName" | "podInterfaceName" | "tapName"
> {
  readonly answers: NonNullable<BridgeWiring["replies"]>;
  readonly bridgeMac: string;
}

export function answersTableName(bridgeName: string): TableName {
  return { family: "bridge", name: `patchbay-${bridgeName}` };
}

const IPV4_MATCHES = {
  requests: [DHCP_REQUESTS.ipv4],
  answers: ["udp sport 67"],
} as const;
const IPV6_MATCHES = {
  requests: [DHCP_REQUESTS.ipv6, "icmpv6 type nd-router-solicit"],
  answers: ["udp sport 547", "icmpv6 type nd-router-advert"],
} as const;
/** Match of neighbor discovery, by which the guest resolves the bridge's IPv6 addresses. */
const NEIGHBOR_DISCOVERY = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }";
const LINK_LOCAL = "fe80::/10";

/** Redirects the guest's IPv6 traffic to the network's gateway, except traffic to the bridge's own addresses. */
function buildGatewayRules(
  { tapName, bridgeMac, answers }: AnswersWiring,
  bridgeAddresses: readonly string[],
): readonly string[] {
  if (answers.gatewayMac === undefined) return [];
  const toBridge = `iifname "${tapName}" ether daddr ${bridgeMac}`;
  return [
    ...[LINK_LOCAL, ...bridgeAddresses].map((address) => `${toBridge} ip6 daddr ${address} accept`),
    `${toBridge} ether type ip6 ether daddr set ${answers.gatewayMac}`,
  ];
}

function buildAcceptRule(match: string): string {
  const isDhcp = Object.values<string>(DHCP_REQUESTS).includes(match);
  return `${match}${isDhcp ? " counter" : ""} accept`;
}

export function buildAnswersTable(wiring: AnswersWiring): Table {
  const { bridgeName, podInterfaceName, tapName, answers } = wiring;
  const addresses = answers.addresses.map((address) => address.split("/")[0] ?? "");
  const ipv6 = addresses.filter((address) => address.includes(":"));
  const families = [
    ...(ipv6.length < addresses.length ? [IPV4_MATCHES] : []),
    ...(ipv6.length > 0 ? [IPV6_MATCHES] : []),
  ];
  const requestMatches = families.flatMap((family) => family.requests);
  const answerMatches = families.flatMap((family) => family.answers);
  const acceptedMatches =
    ipv6.length > 0 ? [...requestMatches, NEIGHBOR_DISCOVERY] : requestMatches;
  const [toNetwork, fromNetwork, fromGuest] = [
    `oifname "${podInterfaceName}"`,
    `iifname "${podInterfaceName}"`,
    `iifname "${tapName}"`,
  ];
  const toGateway = buildGatewayRules(wiring, ipv6);
  const buildHook = (hookPoint: string) =>
    ({ type: "filter", point: hookPoint, policy: "accept" }) as const;
  return {
    ...answersTableName(bridgeName),
    chains: [
      ...(toGateway.length === 0
        ? []
        : [{ name: "inward", hook: buildHook("prerouting priority dstnat"), rules: toGateway }]),
      {
        // Uses one chain for both directions, because each chain adds about a tenth to the processing time of a frame.
        name: "through",
        hook: buildHook("forward priority filter"),
        rules: [
          ...answerMatches.map((match) => `${fromNetwork} ${match} drop`),
          ...requestMatches.map((match) => `${toNetwork} ${match} drop`),
        ],
      },
      {
        name: "heard",
        hook: buildHook("input priority filter"),
        rules: [
          ...acceptedMatches.map((match) => `${fromGuest} ${buildAcceptRule(match)}`),
          `${fromGuest} drop`,
          `${fromNetwork} drop`,
        ],
      },
      {
        name: "said",
        hook: buildHook("output priority filter"),
        rules: [`${toNetwork} drop`],
      },
    ],
  };
}
