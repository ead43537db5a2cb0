// SPDX-License-Identifier: Apache-2.0
// nftables rules at a guest's tap for network policies. docs/design/network-policies.md explains them.
import { createHash } from "node:crypto";
import type { ObservedWiring } from "@patchbay/core/nics";
import type { NicPolicy, PortRange, TrafficRule } from "@patchbay/core/policies";
import { addDropCounters } from "./counters.ts";
import type { Chain, Hook, NamedSet, Table, TableName } from "./table.ts";

export function policyTableName(tapName: string): TableName {
  return { family: "netdev", name: `patchbay-policy-${tapName}` };
}

/** Maximum number of flows that the kernel stores for one NIC, and time without packets after which the kernel drops a flow. */
const [FLOWS_MAX, FLOW_TIMEOUT] = [32_768, "30m"];
/** Protocol numbers. nft would look up names in /etc/protocols, which an image may lack. */
const [ICMP, TCP, UDP, FRAGMENT, ICMPV6, SCTP] = [1, 6, 17, 44, 58, 132];
const WITH_PORTS = `meta l4proto { ${[TCP, UDP, SCTP].join(", ")} }`;
/** Errors of routers and receivers about packets of a flow. Source: RFC 792, RFC 4443 */
const ICMP_ERRORS = ["destination-unreachable", "time-exceeded", "parameter-problem"];
const ICMPV6_ERRORS = ["destination-unreachable", "packet-too-big", ...ICMP_ERRORS.slice(1)];
const ANY_PORT_LAST = 65_535;

type Version = 4 | 6;
type Direction = "ingress" | "egress";

const FAMILIES = {
  4: { family: "ip", type: "ipv4_addr" },
  6: { family: "ip6", type: "ipv6_addr" },
} as const;

/** Keys of a packet's flow: `flow` contains ports, `pair` does not. The answered keys identify the flow in the opposite direction. */
function buildKeys(
  version: Version,
): Readonly<Record<"flow" | "answered" | "pair" | "answeredPair", string>> {
  const { family } = FAMILIES[version];
  const [source, destination] = [`${family} saddr`, `${family} daddr`];
  return {
    flow: `${source} . ${destination} . meta l4proto . th sport . th dport`,
    answered: `${destination} . ${source} . meta l4proto . th dport . th sport`,
    pair: `${source} . ${destination} . meta l4proto`,
    answeredPair: `${destination} . ${source} . meta l4proto`,
  };
}

function buildFlowSets(version: Version): readonly NamedSet[] {
  const { type } = FAMILIES[version];
  const properties = (key: string): readonly string[] => [
    `type ${key}`,
    `size ${String(FLOWS_MAX)}`,
    "flags dynamic,timeout",
    `timeout ${FLOW_TIMEOUT}`,
  ];
  const pair = `${type} . ${type} . inet_proto`;
  return [
    {
      name: `flows${String(version)}`,
      properties: properties(`${pair} . inet_service . inet_service`),
      elements: [],
    },
    { name: `pairs${String(version)}`, properties: properties(pair), elements: [] },
  ];
}

function versionOf(address: string): Version {
  return address.includes(":") ? 6 : 4;
}

/** Builds a set. Its name contains a digest of its elements, because a comparison of rules sees only the names of sets. */
function buildAddressSet(version: Version, addresses: readonly string[]): NamedSet {
  const digest = createHash("sha256").update(addresses.join(" ")).digest("hex").slice(0, 16);
  return {
    name: `peers${String(version)}-${digest}`,
    properties: [`type ${FAMILIES[version].type}`, "flags interval"],
    elements: addresses,
  };
}

function selectVersion(addresses: readonly string[], version: Version): readonly string[] {
  return addresses.filter((address) => versionOf(address) === version);
}

function printPorts(protocol: PortRange["protocol"], ports: readonly PortRange[]): string {
  const texts = ports.map(({ first, last }) =>
    first === last ? String(first) : `${String(first)}-${String(last)}`,
  );
  const [only = ""] = texts;
  return `${protocol} dport ${texts.length === 1 ? only : `{ ${texts.join(", ")} }`}`;
}

const PROTOCOL_NUMBERS = { tcp: TCP, udp: UDP, sctp: SCTP } as const;

function buildPortMatches(ports: readonly PortRange[] | undefined): readonly string[] {
  if (ports === undefined) return [""];
  return (["tcp", "udp", "sctp"] as const).flatMap((protocol) => {
    const own = ports.filter((port) => port.protocol === protocol);
    if (own.length === 0) return [];
    const isWhole = own.some(({ first, last }) => first === 0 && last === ANY_PORT_LAST);
    return isWhole
      ? [`meta l4proto ${String(PROTOCOL_NUMBERS[protocol])} `]
      : [`${printPorts(protocol, own)} `];
  });
}

interface ChainContext {
  readonly version: Version;
  readonly direction: Direction;
}

function printPeerMatch({ version, direction }: ChainContext, setName: string): string {
  return `${FAMILIES[version].family} ${direction === "ingress" ? "saddr" : "daddr"} @${setName} `;
}

function buildTrafficRules(
  context: ChainContext,
  rules: readonly TrafficRule[],
): readonly string[] {
  const { version } = context;
  return rules.flatMap(({ peers, ports }) => {
    const addresses = peers && selectVersion(peers, version);
    if (addresses?.length === 0) return [];
    const peerMatch =
      addresses === undefined
        ? ""
        : printPeerMatch(context, buildAddressSet(version, addresses).name);
    return buildPortMatches(ports).map(
      (portMatch) => `${peerMatch}${portMatch}goto pass${String(version)}`,
    );
  });
}

/** Builds rules that accept answers to packets that the sets of flows and pairs record, and later fragments of accepted packets. */
function buildAnswerRules({ version, direction }: ChainContext): readonly string[] {
  const { answered, pair, answeredPair } = buildKeys(version);
  const [flows, pairs] = [`@flows${String(version)}`, `@pairs${String(version)}`];
  const [laterFragment, echoReply, errors] =
    version === 4
      ? [
          "ip frag-off & 8191 != 0",
          "icmp type echo-reply",
          ICMP_ERRORS.map((type) => `icmp type ${type}`),
        ]
      : [
          "frag frag-off > 0",
          "icmpv6 type echo-reply",
          ICMPV6_ERRORS.map((type) => `icmpv6 type ${type}`),
        ];
  const protocols = [ICMP, TCP, UDP, ICMPV6, SCTP].join(", ");
  return [
    `${laterFragment} ${pair} ${pairs} accept`,
    `${laterFragment} ${answeredPair} ${pairs} accept`,
    `${answered} ${flows} update ${flows} { ${answered} } accept`,
    `${echoReply} ${answeredPair} ${pairs} accept`,
    `meta l4proto != { ${protocols} } ${answeredPair} ${pairs} accept`,
    // ICMP errors from the guest pass only if an egress rule allows them, because they could carry data to any host.
    ...(direction === "ingress" ? errors.map((error) => `${error} accept`) : []),
  ];
}

/** Lists the addresses at which the pod answers the guest as DHCP server and as router. Empty for a CNI plugin's tap. */
function listPodAddresses(wiring: ObservedWiring): readonly string[] {
  if (wiring.kind === "tap") return [];
  const addresses =
    wiring.kind === "bridge"
      ? (wiring.replies?.addresses ?? [])
      : [wiring.ipv4?.gateway ?? [], wiring.ipv6?.gateway ?? []].flat();
  return [...new Set(addresses.map((address) => address.split("/")[0] ?? ""))].sort();
}

/** Builds rules that accept DHCP and IPv6 neighbor discovery. The send guard has already checked the packets that the guest sends. */
function buildAddressRules(
  { version, direction }: ChainContext,
  wiring: ObservedWiring,
): readonly string[] {
  if (direction === "ingress") {
    return version === 4
      ? ["udp sport 67 udp dport 68 accept"]
      : [
          "ip6 nexthdr 58 icmpv6 type 134-136 accept",
          "ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept",
        ];
  }
  if (version === 6) {
    return [
      "ip6 nexthdr 58 icmpv6 type 133-136 accept",
      // Reports of multicast groups (MLDv2), without which switches do not forward neighbor discovery.
      "ip6 daddr ff02::16 ip6 nexthdr 0 accept",
      "ip6 daddr ff02::1:2 udp sport 546 udp dport 547 accept",
    ];
  }
  return ["255.255.255.255", ...selectVersion(listPodAddresses(wiring), 4)].map(
    (server) => `ip daddr ${server} udp sport 68 udp dport 67 accept`,
  );
}

/** Rule that drops packets with extension headers (except fragments), because the kernel may misread the protocol behind such headers. */
const ONLY_SIMPLE_IPV6 = `ip6 nexthdr != { ${[TCP, UDP, FRAGMENT, ICMPV6, SCTP].join(", ")} } drop`;

interface TableContext {
  readonly policy: NicPolicy;
  readonly wiring: ObservedWiring;
}

/**
 * Lists the addresses that policies do not restrict: the exempt addresses and, for a guest behind NAT, the addresses of its gateway,
 * because that gateway is the guest's own pod.
 */
function listExempt({ policy, wiring }: TableContext, version: Version): readonly string[] {
  const ofPod = wiring.kind === "masquerade" ? listPodAddresses(wiring) : [];
  return selectVersion([...(policy.exempt ?? []), ...ofPod], version);
}

const CHAIN_NAMES = { ingress: "to-guest", egress: "from-guest" } as const;

function chainName({ version, direction }: ChainContext): string {
  return `${direction}${String(version)}`;
}

function buildDirectionChain(context: ChainContext, table: TableContext): Chain {
  const { version, direction } = context;
  const rules = table.policy[direction];
  const pass = `goto pass${String(version)}`;
  const name = chainName(context);
  if (rules === undefined) return { name, rules: [pass] };
  const side = direction === "ingress" ? "saddr" : "daddr";
  return {
    name,
    rules: [
      ...buildAddressRules(context, table.wiring),
      ...(version === 6 ? [ONLY_SIMPLE_IPV6] : []),
      ...listExempt(table, version).map(
        (address) => `${FAMILIES[version].family} ${side} ${address} ${pass}`,
      ),
      ...buildAnswerRules(context),
      ...buildTrafficRules(context, rules),
    ],
  };
}

/** Builds a chain that accepts a packet and records its connection, so that answers pass in the other direction. */
function buildPassChain(version: Version): Chain {
  const { flow, pair } = buildKeys(version);
  return {
    name: `pass${String(version)}`,
    rules: [
      `${WITH_PORTS} update @flows${String(version)} { ${flow} }`,
      `update @pairs${String(version)} { ${pair} }`,
      "accept",
    ],
  };
}

/** Accepts ARP and RARP. Accepts frames other than ARP, RARP and IP only in a direction that no policy isolates. */
function buildEntryChain(direction: Direction, { policy, wiring }: TableContext): Chain {
  const device = `device "${wiring.tapName}"`;
  // Frames from the guest arrive at the tap's ingress hook. At this hook, the chain runs after the send guard and before the rate limiter.
  const point =
    direction === "egress"
      ? `ingress ${device} priority filter + 5`
      : `egress ${device} priority filter`;
  const hook: Hook = { type: "filter", point, policy: "drop" };
  return {
    name: CHAIN_NAMES[direction],
    hook,
    rules: [
      "ether type arp accept",
      "ether type 0x8035 accept",
      `ether type ip goto ${chainName({ version: 4, direction })}`,
      `ether type ip6 goto ${chainName({ version: 6, direction })}`,
      ...(policy[direction] === undefined ? ["accept"] : []),
    ],
  };
}

function listAddressSets(policy: NicPolicy): readonly NamedSet[] {
  const rules = [...(policy.ingress ?? []), ...(policy.egress ?? [])];
  const sets = rules.flatMap(({ peers = [] }) =>
    ([4, 6] as const).flatMap((version) => {
      const addresses = selectVersion(peers, version);
      return addresses.length === 0 ? [] : [buildAddressSet(version, addresses)];
    }),
  );
  return [...new Map(sets.map((set) => [set.name, set])).values()].toSorted((left, right) =>
    left.name < right.name ? -1 : 1,
  );
}

/** Builds the table of a NIC's policies. Frames that no rule accepts are dropped. */
export function buildPolicyTable(wiring: ObservedWiring, policy: NicPolicy): Table {
  const context: TableContext = { policy, wiring };
  const directions = ["egress", "ingress"] as const;
  const versions = [4, 6] as const;
  return {
    ...policyTableName(wiring.tapName),
    sets: [...versions.flatMap(buildFlowSets), ...listAddressSets(policy)],
    chains: [
      ...directions.map((direction) => buildEntryChain(direction, context)),
      ...directions.flatMap((direction) =>
        versions.map((version) => buildDirectionChain({ version, direction }, context)),
      ),
      ...versions.map(buildPassChain),
    ].map(addDropCounters),
  };
}
