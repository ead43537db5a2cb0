// SPDX-License-Identifier: Apache-2.0
// Traffic that network policies allow to and from one pod. Source: Kubernetes networking.k8s.io/v1 NetworkPolicy.
import type {
  LabelSelector,
  NetworkPolicy,
  PolicyPeer,
  PolicyPort,
} from "@patchbay/api/kubernetes";
import { memoize } from "@patchbay/api/values";
import { isSelectedBy, matchesLabels, type PolicyPod } from "./policy-pods.ts";
import {
  listBlockRanges,
  mergeRanges,
  parseRange,
  printRanges,
  type AddressRange,
} from "./ranges.ts";

export interface PortRange {
  readonly protocol: "tcp" | "udp" | "sctp";
  readonly first: number;
  /** Equal to `first` for a single port. */
  readonly last: number;
}

export interface TrafficRule {
  /** Addresses of the peers: ADDRESS or FIRST-LAST, sorted, without overlaps. Unset: all peers. */
  readonly peers?: readonly string[];
  /** Destination ports, sorted, without overlaps. Unset: all protocols and ports. */
  readonly ports?: readonly PortRange[];
}

/** Traffic that policies allow. An empty list allows no traffic in its direction. If a direction is unset, all its traffic is allowed. */
export interface NicPolicy {
  readonly ingress?: readonly TrafficRule[];
  readonly egress?: readonly TrafficRule[];
  /** Addresses and CIDR blocks that policies do not restrict, such as the node's addresses. */
  readonly exempt?: readonly string[];
}

export const ISOLATED: NicPolicy = { ingress: [], egress: [] };

export interface PolicyFacts {
  readonly pod: PolicyPod;
  /** Policies of the pod's namespace. */
  readonly policies: readonly NetworkPolicy[];
  /** Pods of all namespaces. */
  readonly pods: readonly PolicyPod[];
  readonly findNamespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
}

export interface PlannedPolicy {
  /** Traffic that the pod's policies allow; unset if no policy selects the pod. */
  readonly policy?: NicPolicy;
  /** Names of the policies whose rules exceed a limit. These policies allow nothing. */
  readonly oversized: readonly string[];
}

/** Limits of one policy in one direction, which bound the kernel's memory and the time of an update. */
const [RULES_MAX, RANGES_MAX, PORTS_MAX] = [64, 2048, 256];
/** Maximum number of peers, excepted blocks and ports that a policy may list in one direction. */
const ENTRIES_MAX = 1024;
/** Maximum number of policies that select one pod. */
const POLICIES_MAX = 32;
const PORT_MAX = 65_535;

const PROTOCOLS: Readonly<Record<string, PortRange["protocol"]>> = {
  TCP: "tcp",
  UDP: "udp",
  SCTP: "sctp",
};

type Direction = "ingress" | "egress";

interface PolicyRule {
  readonly peers?: readonly PolicyPeer[];
  readonly ports?: readonly PolicyPort[];
}

function listRules({ spec }: NetworkPolicy, direction: Direction): readonly PolicyRule[] {
  const rules =
    direction === "ingress"
      ? (spec?.ingress ?? []).map(({ from, ports }) => ({ peers: from, ports }))
      : (spec?.egress ?? []).map(({ to, ports }) => ({ peers: to, ports }));
  return rules.map(({ peers = [], ports = [] }) => ({
    ...(peers.length > 0 && { peers }),
    ...(ports.length > 0 && { ports }),
  }));
}

/** Checks whether the policy isolates pods in the direction. Without `policyTypes`, only a policy with egress rules isolates egress. */
function isolates({ spec }: NetworkPolicy, direction: Direction): boolean {
  const { policyTypes = [], egress = [] } = spec ?? {};
  if (policyTypes.length > 0)
    return policyTypes.includes(direction === "ingress" ? "Ingress" : "Egress");
  return direction === "ingress" || egress.length > 0;
}

type FindNamespaceLabels = Pick<PolicyFacts, "findNamespaceLabels">;

function isPeer(
  pod: Pick<PolicyPod, "namespace" | "labels">,
  peer: PolicyPeer,
  namespace: string,
  facts: FindNamespaceLabels,
): boolean {
  const { podSelector, namespaceSelector } = peer;
  if (podSelector === undefined && namespaceSelector === undefined) return false;
  if (podSelector !== undefined && !matchesLabels(podSelector, pod.labels)) return false;
  if (namespaceSelector === undefined) return pod.namespace === namespace;
  const labels = facts.findNamespaceLabels(pod.namespace);
  return labels !== undefined && matchesLabels(namespaceSelector, labels);
}

function listAddresses(pods: readonly PolicyPod[]): readonly AddressRange[] {
  return pods.flatMap(({ addresses }) => addresses.flatMap((text) => parseRange(text) ?? []));
}

interface Peers {
  readonly pods: readonly PolicyPod[];
  readonly blocks: readonly AddressRange[];
}

function findPeers(peers: readonly PolicyPeer[], namespace: string, facts: PolicyFacts): Peers {
  return {
    pods: facts.pods.filter((pod) =>
      peers.some((peer) => peer.ipBlock === undefined && isPeer(pod, peer, namespace, facts)),
    ),
    blocks: peers.flatMap(({ ipBlock }) =>
      ipBlock === undefined ? [] : listBlockRanges(ipBlock.cidr, ipBlock.except ?? []),
    ),
  };
}

function listNumericPorts(ports: readonly PolicyPort[]): readonly PortRange[] {
  return ports.flatMap(({ protocol: name = "TCP", port, endPort }): readonly PortRange[] => {
    const protocol = PROTOCOLS[name];
    if (protocol === undefined || typeof port === "string") return [];
    if (port === undefined) return [{ protocol, first: 0, last: PORT_MAX }];
    const last = endPort ?? port;
    return port >= 0 && port <= last && last <= PORT_MAX ? [{ protocol, first: port, last }] : [];
  });
}

const groupNamedPorts = memoize(({ namedPorts }: PolicyPod) =>
  Map.groupBy(namedPorts, ({ protocol, name }) => `${protocol} ${name}`),
);

/** Resolves a named port by the container ports of the pod that receives the traffic. */
function resolveNamedPorts(ports: readonly PolicyPort[], pod: PolicyPod): readonly PortRange[] {
  return ports.flatMap(({ protocol = "TCP", port: wanted }) =>
    typeof wanted === "string"
      ? (groupNamedPorts(pod).get(`${protocol} ${wanted}`) ?? []).flatMap(({ port }) =>
          listNumericPorts([{ protocol, port }]),
        )
      : [],
  );
}

function mergePorts(ports: readonly PortRange[]): readonly PortRange[] {
  return Object.values(PROTOCOLS).flatMap((protocol) =>
    mergeRanges(
      ports
        .filter((port) => port.protocol === protocol)
        .map(({ first, last }) => ({ first: BigInt(first), last: BigInt(last) })),
    ).map(({ first, last }) => ({ protocol, first: Number(first), last: Number(last) })),
  );
}

function toTrafficRule(
  peers: readonly AddressRange[] | undefined,
  ports: readonly PortRange[] | undefined,
): readonly TrafficRule[] {
  if (peers?.length === 0 || ports?.length === 0) return [];
  return [
    {
      ...(peers !== undefined && { peers: printRanges(peers) }),
      ...(ports !== undefined && { ports: mergePorts(ports) }),
    },
  ];
}

/** Plans one rule for each number of a named port, because a port name can stand for different numbers in different peers. */
function planNamedEgress(
  ports: readonly PolicyPort[],
  pods: readonly PolicyPod[],
): readonly TrafficRule[] {
  const podsByPort = new Map<string, { readonly port: PortRange; readonly pods: PolicyPod[] }>();
  for (const pod of pods) {
    for (const port of resolveNamedPorts(ports, pod)) {
      const key = `${port.protocol} ${String(port.first)}`;
      const entry = podsByPort.get(key) ?? { port, pods: [] };
      entry.pods.push(pod);
      podsByPort.set(key, entry);
    }
  }
  const sorted = [...podsByPort].toSorted(([left], [right]) => (left < right ? -1 : 1));
  return sorted.flatMap(([, { port, pods: found }]) => toTrafficRule(listAddresses(found), [port]));
}

function planRule(
  { peers, ports }: PolicyRule,
  direction: Direction,
  facts: PolicyFacts,
): readonly TrafficRule[] {
  const found = peers && findPeers(peers, facts.pod.namespace, facts);
  const addresses = found && [...listAddresses(found.pods), ...found.blocks];
  if (ports === undefined) return toTrafficRule(addresses, undefined);
  const numericPorts = listNumericPorts(ports);
  if (direction === "ingress")
    return toTrafficRule(addresses, [...numericPorts, ...resolveNamedPorts(ports, facts.pod)]);
  return [
    ...toTrafficRule(addresses, numericPorts),
    ...planNamedEgress(ports, found?.pods ?? facts.pods),
  ];
}

function countEntries({ peers = [], ports = [] }: PolicyRule): number {
  return peers.reduce(
    (count, { ipBlock }) => count + 1 + (ipBlock?.except ?? []).length,
    ports.length,
  );
}

/** Checks the size of the policy before it is evaluated, because the time of an evaluation grows faster than the size. */
function hasTooManyEntries(rules: readonly PolicyRule[]): boolean {
  const entries = rules.reduce((count, rule) => count + countEntries(rule), 0);
  return rules.length > RULES_MAX || entries > ENTRIES_MAX;
}

function isOversized(rules: readonly TrafficRule[]): boolean {
  const sum = (count: (rule: TrafficRule) => number): number =>
    rules.reduce((total, rule) => total + count(rule), 0);
  return (
    rules.length > RULES_MAX ||
    sum(({ peers = [] }) => peers.length) > RANGES_MAX ||
    sum(({ ports = [] }) => ports.length) > PORTS_MAX
  );
}

/** Named ports of egress rules without peers are those of all pods. */
function hasPortsOfAllPods({ peers, ports = [] }: PolicyRule, direction: Direction): boolean {
  return (
    direction === "egress" &&
    peers === undefined &&
    ports.some(({ port }) => typeof port === "string")
  );
}

function someRule(
  policy: NetworkPolicy,
  matches: (rule: PolicyRule, direction: Direction) => boolean,
): boolean {
  return (["ingress", "egress"] as const).some((direction) =>
    listRules(policy, direction).some((rule) => matches(rule, direction)),
  );
}

/** Key of policies that may select peers in all namespaces. It is no valid name of a namespace. */
export const ALL_NAMESPACES = "*";

export function listNamespaceSelectors(policy: NetworkPolicy): readonly LabelSelector[] {
  return (["ingress", "egress"] as const)
    .flatMap((direction) => listRules(policy, direction))
    .flatMap(({ peers = [] }) => peers)
    .flatMap(({ namespaceSelector }) => namespaceSelector ?? []);
}

/** Returns the namespace whose pods may be peers of the policy, or ALL_NAMESPACES. */
export function findPeerNamespace(policy: NetworkPolicy): string {
  const isWide = listNamespaceSelectors(policy).length > 0 || someRule(policy, hasPortsOfAllPods);
  return isWide ? ALL_NAMESPACES : (policy.metadata.namespace ?? "");
}

/** Returns whether the addresses or ports of the pod affect what the policy allows to other pods. */
export function affectsPeersOf(
  policy: NetworkPolicy,
  pod: Pick<PolicyPod, "namespace" | "labels" | "namedPorts">,
  facts: FindNamespaceLabels,
): boolean {
  const { namespace = "" } = policy.metadata;
  return someRule(
    policy,
    (rule, direction) =>
      (pod.namedPorts.length > 0 && hasPortsOfAllPods(rule, direction)) ||
      (rule.peers ?? []).some((peer) => isPeer(pod, peer, namespace, facts)),
  );
}

/** Checks whether the policy has a rule whose selectors match no pod with an address. */
export function hasUnmatchedSelectors(policy: NetworkPolicy, facts: PolicyFacts): boolean {
  const isUnmatched = ({ peers = [] }: PolicyRule): boolean => {
    const selectors = peers.filter(({ ipBlock }) => ipBlock === undefined);
    const found = findPeers(selectors, facts.pod.namespace, facts);
    return selectors.length > 0 && listAddresses(found.pods).length === 0;
  };
  return (["ingress", "egress"] as const).some((direction) => {
    const rules = isolates(policy, direction) ? listRules(policy, direction) : [];
    return !hasTooManyEntries(rules) && rules.some(isUnmatched);
  });
}

interface DirectionPlan {
  readonly rules?: readonly TrafficRule[];
  readonly oversized: readonly string[];
}

function planDirection(
  selecting: readonly NetworkPolicy[],
  direction: Direction,
  facts: PolicyFacts,
): DirectionPlan {
  const policies = selecting.filter((policy) => isolates(policy, direction));
  if (policies.length === 0) return { oversized: [] };
  const planned = policies.map((policy, index) => {
    const rules = listRules(policy, direction);
    const isTooMany = index >= POLICIES_MAX || hasTooManyEntries(rules);
    const traffic = isTooMany ? [] : rules.flatMap((rule) => planRule(rule, direction, facts));
    const isRefused = isTooMany || isOversized(traffic);
    return { name: policy.metadata.name, traffic: isRefused ? [] : traffic, isRefused };
  });
  return {
    rules: planned.flatMap(({ traffic }) => traffic),
    oversized: planned.filter(({ isRefused }) => isRefused).map(({ name }) => name),
  };
}

/** Plans the allowed traffic of a pod. Policies are additive: traffic passes if one of them allows it. */
export function planPodPolicy(facts: PolicyFacts): PlannedPolicy {
  const selecting = facts.policies.filter((policy) => isSelectedBy(policy, facts.pod));
  if (selecting.length === 0) return { oversized: [] };
  const [ingress, egress] = (["ingress", "egress"] as const).map((direction) =>
    planDirection(selecting, direction, facts),
  );
  return {
    policy: {
      ...(ingress?.rules !== undefined && { ingress: ingress.rules }),
      ...(egress?.rules !== undefined && { egress: egress.rules }),
    },
    oversized: [...new Set([...(ingress?.oversized ?? []), ...(egress?.oversized ?? [])])],
  };
}
