// SPDX-License-Identifier: Apache-2.0
// Network policies for connections through Services. virt-handler filters all other traffic at the VMs' NICs. Behind a
// Service, these filters would not work: guests send to the Service's address, and receive from the node's address.
import { names } from "@patchbay/api";
import type { NetworkPolicy, Pod } from "@patchbay/api/kubernetes";
import { AppError, type Logger } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import {
  planPodPolicy,
  toPolicyPod,
  type NicPolicy,
  type PolicyPod,
  type PortRange,
  type TrafficRule,
} from "@patchbay/core/policies";
import { printRemoval } from "../forward/ruleset.ts";
import { halveOnRefusal, runNft } from "../host/nft.ts";

export interface PolicyObjects {
  readonly policies: readonly NetworkPolicy[];
  readonly pods: readonly Pod[];
  readonly findNamespaceLabels: (namespace: string) => PolicyPod["labels"] | undefined;
}

export interface PolicyOfPod {
  readonly address: string;
  readonly policy: NicPolicy;
}

/** Returns the policies of the VMs' pods, sorted by address. Policies do not restrict other pods on this machine. */
export function listPodPolicies(objects: PolicyObjects): readonly PolicyOfPod[] {
  const { policies, findNamespaceLabels } = objects;
  if (policies.length === 0) return [];
  const pods = objects.pods.flatMap((pod) => toPolicyPod(pod) ?? []);
  return pods
    .filter(({ labels }) => labels[names.KUBEVIRT_LABEL] === names.LAUNCHER_LABEL_VALUE)
    .flatMap((pod): readonly PolicyOfPod[] => {
      const own = policies.filter(({ metadata }) => metadata.namespace === pod.namespace);
      const { policy } = planPodPolicy({ pod, policies: own, pods, findNamespaceLabels });
      if (policy === undefined) return [];
      return pod.addresses
        .filter((address) => !address.includes(":"))
        .map((address) => ({ address, policy }));
    })
    .toSorted((left, right) => (left.address < right.address ? -1 : 1));
}

function printSet(elements: readonly string[]): string {
  return `{ ${elements.join(", ")} }`;
}

function printPorts(protocol: PortRange["protocol"], ports: readonly PortRange[]): string {
  return `${protocol} dport ${printSet(ports.map(({ first, last }) => `${String(first)}-${String(last)}`))} `;
}

function printRule({ peers, ports }: TrafficRule, side: "saddr" | "daddr"): readonly string[] {
  const addresses = peers?.filter((peer) => !peer.includes(":"));
  if (addresses?.length === 0) return [];
  const peerMatch = addresses === undefined ? "" : `ip ${side} ${printSet(addresses)} `;
  if (ports === undefined) return [`${peerMatch}return`];
  return (["tcp", "udp", "sctp"] as const).flatMap((protocol) => {
    const own = ports.filter((port) => port.protocol === protocol);
    return own.length === 0 ? [] : [`${peerMatch}${printPorts(protocol, own)}return`];
  });
}

interface Direction {
  readonly name: "ingress" | "egress";
  readonly own: "saddr" | "daddr";
  readonly peer: "saddr" | "daddr";
}

const DIRECTIONS: readonly Direction[] = [
  { name: "ingress", own: "daddr", peer: "saddr" },
  { name: "egress", own: "saddr", peer: "daddr" },
];

function printDirection(pods: readonly PolicyOfPod[], { name, own, peer }: Direction) {
  const isolated = pods.flatMap(({ address, policy }) => {
    const rules = policy[name];
    return rules === undefined ? [] : [{ address, rules }];
  });
  const targets = isolated.map(({ address }) => `${address} : jump ${name}-${address}`);
  return {
    chains: isolated.flatMap(({ address, rules }) => [
      `chain ${name}-${address} {`,
      `ip ${peer} ${address} return`,
      ...rules.flatMap((rule) => printRule(rule, peer)),
      "drop",
      "}",
    ]),
    rules: isolated.length === 0 ? [] : [`ip ${own} vmap ${printSet(targets)}`],
  };
}

/** Prints the table for connections that a Service redirects to a pod. The answers of accepted connections always pass. */
export function printPolicyTable(table: string, pods: readonly PolicyOfPod[]): string {
  const removal = printRemoval(table);
  if (pods.length === 0) return removal;
  const directions = DIRECTIONS.map((direction) => printDirection(pods, direction));
  return [
    `${removal}table ip ${table} {`,
    ...directions.flatMap(({ chains }) => chains),
    "chain forward {",
    "type filter hook forward priority filter - 1; policy accept;",
    "ct status & dnat == 0 accept",
    "ct state established,related accept",
    ...directions.flatMap(({ rules }) => rules),
    "}",
    "}",
    "",
  ].join("\n");
}

interface PolicyTableDeps {
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly table: string;
}

function isolate({ address, policy }: PolicyOfPod): PolicyOfPod {
  const { ingress, egress } = policy;
  return { address, policy: { ...(ingress && { ingress: [] }), ...(egress && { egress: [] }) } };
}

/** Returns a function that writes the table if it has changed. The function throws an AppError SERVICE_RULES_REFUSED if nft fails. */
export function createPolicyTable({ runner, log, table }: PolicyTableDeps) {
  let written = "";
  const check = (pods: readonly PolicyOfPod[]): Promise<string | undefined> =>
    runNft(runner, printPolicyTable(table, pods), "check");
  const isolateRefused = async (pods: readonly PolicyOfPod[]): Promise<readonly PolicyOfPod[]> => {
    const reason = await check([]);
    if (reason !== undefined) throw new AppError("SERVICE_RULES_REFUSED", { reason });
    const refused = await halveOnRefusal(pods, check);
    for (const { item, reason: podReason } of refused)
      log.warn("pod isolated, because nft refused its network policies", {
        address: item.address,
        reason: podReason,
      });
    const addresses = new Set(refused.map(({ item }) => item.address));
    return pods.map((pod) => (addresses.has(pod.address) ? isolate(pod) : pod));
  };
  return async (pods: readonly PolicyOfPod[]): Promise<void> => {
    const stdin = printPolicyTable(table, pods);
    if (stdin === written) return;
    if ((await runNft(runner, stdin)) !== undefined) {
      const reason = await runNft(runner, printPolicyTable(table, await isolateRefused(pods)));
      if (reason !== undefined) throw new AppError("SERVICE_RULES_REFUSED", { reason });
    }
    written = stdin;
    log.info("network policies for Services written", { count: pods.length });
  };
}
