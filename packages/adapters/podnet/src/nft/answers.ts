// SPDX-License-Identifier: Apache-2.0
// nftables rules for a bridge on which the pod serves DHCP and router advertisements to its guest. The rules block other servers and
// clients, redirect the guest's routed traffic to the network's gateway, and answer for permanent neighbors. docs/design/guest-addresses.md
// explains the rules.
import type { AnsweredNeighbor, BridgeWiring } from "@patchbay/core/nics";
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
/** nftables match for neighbor discovery, by which the guest resolves the bridge's IPv6 addresses. */
const NEIGHBOR_DISCOVERY = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }";
const LINK_LOCAL = "fe80::/10";

function stripPrefixLength(address: string): string {
  return address.split("/")[0] ?? "";
}

/** Prints a destination as nft lists it: a single address without its prefix length. */
function printDestination(destination: string): string {
  const hostSuffix = destination.includes(":") ? "/128" : "/32";
  return destination.endsWith(hostSuffix) ? stripPrefixLength(destination) : destination;
}

function readLength(destination: string): number {
  return Number(destination.split("/")[1]);
}

interface Redirect {
  readonly mac: string;
  readonly destination: string;
}

/** Lists the destinations behind permanent neighbors, longer prefixes first. */
function listRedirects(neighbors: readonly AnsweredNeighbor[]): readonly Redirect[] {
  return neighbors
    .flatMap(({ mac, destinations }) => destinations.map((destination) => ({ mac, destination })))
    .toSorted((left, right) => readLength(right.destination) - readLength(left.destination));
}

function isDefault({ destination }: Redirect): boolean {
  return readLength(destination) === 0;
}

/**
 * Redirects the guest's IPv6 traffic to permanent neighbors, and otherwise to the network's gateway. The bridge has the
 * neighbors' addresses, so that it answers neighbor discovery for them. Neighbor discovery, and traffic to link-local
 * addresses and to the bridge's other addresses, is not redirected.
 */
function buildIpv6Rules({ tapName, bridgeMac, answers }: AnswersWiring): readonly string[] {
  const { gatewayMac, solicited = [] } = answers;
  if (gatewayMac === undefined && solicited.length === 0) return [];
  const toBridge = `iifname "${tapName}" ether daddr ${bridgeMac}`;
  const hosts = solicited.map(({ address }) => address);
  const servers = answers.addresses
    .filter((address) => address.includes(":"))
    .map(stripPrefixLength)
    .filter((address) => !hosts.includes(address));
  const redirects = listRedirects(solicited);
  const printRedirect = ({ mac, destination }: Redirect): string =>
    `${toBridge} ip6 daddr ${printDestination(destination)} ether daddr set ${mac} accept`;
  const isHost = ({ destination }: Redirect): boolean => destination.endsWith("/128");
  const routerMac = redirects.find(isDefault)?.mac ?? gatewayMac;
  return [
    ...(hosts.length === 0 ? [] : [`${toBridge} ${NEIGHBOR_DISCOVERY} accept`]),
    ...redirects.filter(isHost).map(printRedirect),
    ...[LINK_LOCAL, ...servers].map((address) => `${toBridge} ip6 daddr ${address} accept`),
    ...redirects.filter((redirect) => !isHost(redirect) && !isDefault(redirect)).map(printRedirect),
    ...(routerMac === undefined ? [] : [`${toBridge} ether type ip6 ether daddr set ${routerMac}`]),
  ];
}

/**
 * Lets the bridge answer the guest's ARP requests for permanent neighbors, and redirects the guest's IPv4 traffic to the neighbors' MACs.
 * Sets the sender IP of these ARP requests to 0.0.0.0, because the kernel ignores a sender to which it has no route (rp_filter).
 */
function buildNeighborRules({ tapName, bridgeMac, answers }: AnswersWiring): readonly string[] {
  const { arp } = answers;
  if (arp === undefined) return [];
  const toBridge = `iifname "${tapName}" ether daddr ${bridgeMac}`;
  const servers = answers.addresses
    .filter((address) => !address.includes(":"))
    .map(stripPrefixLength)
    .filter((address) => !arp.neighbors.some((neighbor) => neighbor.address === address));
  const redirects = listRedirects(arp.neighbors);
  return [
    ...arp.neighbors.map(
      ({ address }) =>
        `iifname "${tapName}" arp operation request arp daddr ip ${address} arp saddr ip set 0.0.0.0 accept`,
    ),
    ...servers.map((address) => `${toBridge} ip daddr ${address} accept`),
    ...redirects.map((redirect) =>
      isDefault(redirect)
        ? `${toBridge} ether type ip ether daddr set ${redirect.mac} accept`
        : `${toBridge} ip daddr ${printDestination(redirect.destination)} ether daddr set ${redirect.mac} accept`,
    ),
  ];
}

function buildAcceptRule(match: string): string {
  const isDhcp = Object.values<string>(DHCP_REQUESTS).includes(match);
  return `${match}${isDhcp ? " counter" : ""} accept`;
}

export function buildAnswersTable(wiring: AnswersWiring): Table {
  const { bridgeName, podInterfaceName, tapName, answers } = wiring;
  const addresses = answers.addresses.map(stripPrefixLength);
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
  const toGateway = [...buildIpv6Rules(wiring), ...buildNeighborRules(wiring)];
  const { neighbors = [], guestAddress = "" } = answers.arp ?? {};
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
          ...neighbors.map(({ address }) => `${toNetwork} arp daddr ip ${address} drop`),
        ],
      },
      {
        name: "heard",
        hook: buildHook("input priority filter"),
        rules: [
          ...acceptedMatches.map((match) => `${fromGuest} ${buildAcceptRule(match)}`),
          ...neighbors.map(
            ({ address }) => `${fromGuest} arp operation request arp daddr ip ${address} accept`,
          ),
          `${fromGuest} drop`,
          `${fromNetwork} drop`,
        ],
      },
      {
        name: "said",
        hook: buildHook("output priority filter"),
        rules: [
          `${toNetwork} drop`,
          ...(neighbors.length === 0
            ? []
            : [`arp operation reply arp daddr ip 0.0.0.0 arp daddr ip set ${guestAddress}`]),
        ],
      },
    ],
  };
}
