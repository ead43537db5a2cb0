// SPDX-License-Identifier: Apache-2.0
// Rules around a bridge on which the pod serves DHCP and router advertisements to the guest. They block other servers
// and other clients, and redirect the guest's routed traffic to the network's gateway. Details:
// docs/design/guest-addresses.md.
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
/** Neighbor discovery, which resolves the bridge's IPv6 addresses. */
const NEIGHBOR_DISCOVERY = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }";
const LINK_LOCAL = "fe80::/10";

/** Redirects frames to the network's gateway, except those for the bridge itself, which is the guest's router. */
function gatewayRules(
  { tapName, bridgeMac, answers }: AnswersWiring,
  own: readonly string[],
): readonly string[] {
  if (answers.gatewayMac === undefined) return [];
  const toBridge = `iifname "${tapName}" ether daddr ${bridgeMac}`;
  return [
    ...[LINK_LOCAL, ...own].map((address) => `${toBridge} ip6 daddr ${address} accept`),
    `${toBridge} ether type ip6 ether daddr set ${answers.gatewayMac}`,
  ];
}

function acceptRule(match: string): string {
  const isDhcp = Object.values<string>(DHCP_REQUESTS).includes(match);
  return `${match}${isDhcp ? " counter" : ""} accept`;
}

export function answersTable(wiring: AnswersWiring): Table {
  const { bridgeName, podInterfaceName, tapName, answers } = wiring;
  const addresses = answers.addresses.map((address) => address.split("/")[0] ?? "");
  const ipv6 = addresses.filter((address) => address.includes(":"));
  const families = [
    ...(ipv6.length < addresses.length ? [IPV4_MATCHES] : []),
    ...(ipv6.length > 0 ? [IPV6_MATCHES] : []),
  ];
  const requests = families.flatMap((family) => family.requests);
  const answered = families.flatMap((family) => family.answers);
  const matched = ipv6.length > 0 ? [...requests, NEIGHBOR_DISCOVERY] : requests;
  const [toNetwork, fromNetwork, fromGuest] = [
    `oifname "${podInterfaceName}"`,
    `iifname "${podInterfaceName}"`,
    `iifname "${tapName}"`,
  ];
  const toGateway = gatewayRules(wiring, ipv6);
  const hook = (at: string) => ({ type: "filter", at, policy: "accept" }) as const;
  return {
    ...answersTableName(bridgeName),
    chains: [
      ...(toGateway.length === 0
        ? []
        : [{ name: "inward", hook: hook("prerouting priority dstnat"), rules: toGateway }]),
      {
        // One chain for both directions, because each chain adds about a tenth to the time of a frame.
        name: "through",
        hook: hook("forward priority filter"),
        rules: [
          ...answered.map((match) => `${fromNetwork} ${match} drop`),
          ...requests.map((match) => `${toNetwork} ${match} drop`),
        ],
      },
      {
        name: "heard",
        hook: hook("input priority filter"),
        rules: [
          ...matched.map((match) => `${fromGuest} ${acceptRule(match)}`),
          `${fromGuest} drop`,
          `${fromNetwork} drop`,
        ],
      },
      {
        name: "said",
        hook: hook("output priority filter"),
        rules: [`${toNetwork} drop`],
      },
    ],
  };
}
