// SPDX-License-Identifier: Apache-2.0
// Fields of pods that network policies evaluate, and selection of pods by labels.
import {
  isPodFinished,
  type Container,
  type LabelSelector,
  type NetworkPolicy,
  type Pod,
} from "@patchbay/api/kubernetes";
import { parseIp } from "@patchbay/api/values";
import { isEqual } from "@patchbay/base";
import type { Change } from "../interfaces/cache.ts";

type Labels = Readonly<Record<string, string>>;

export interface PolicyPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Labels;
  readonly addresses: readonly string[];
  readonly namedPorts: readonly {
    readonly name: string;
    readonly protocol: string;
    readonly port: number;
  }[];
}

export function listNamedPorts(ports: NonNullable<Container["ports"]>): PolicyPod["namedPorts"] {
  return ports.flatMap(({ name, containerPort: port, protocol = "TCP" }) =>
    name === undefined ? [] : [{ name, protocol, port }],
  );
}

/** Returns undefined for pods without addresses of their own: finished pods, and pods with the node's network. */
export function toPolicyPod(pod: Pod): PolicyPod | undefined {
  const { metadata, spec, status } = pod;
  if (isPodFinished(pod) || spec.hostNetwork === true) return undefined;
  const addresses = [status?.podIP ?? "", ...(status?.podIPs ?? []).map(({ ip }) => ip)];
  return {
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    uid: metadata.uid ?? "",
    labels: metadata.labels ?? {},
    addresses: [...new Set(addresses)].filter((address) => parseIp(address) !== undefined),
    namedPorts: listNamedPorts(spec.containers.flatMap(({ ports = [] }) => ports)),
  };
}

/** Returns whether the change of a pod may change the traffic that policies allow. */
export function affectsPolicies(change: Change<Pod>): boolean {
  const before = change.kind === "added" ? undefined : toPolicyPod(change.previous);
  const after = change.kind === "deleted" ? undefined : toPolicyPod(change.current);
  return !isEqual(before, after);
}

type Requirement = NonNullable<LabelSelector["matchExpressions"]>[number];

function meetsRequirement(labels: Labels, { key, operator, values = [] }: Requirement): boolean {
  const value = labels[key];
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return false;
  }
}

export function matchesLabels(selector: LabelSelector, labels: Labels): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every((requirement) => meetsRequirement(labels, requirement))
  );
}

export function isSelectedBy(
  { metadata, spec }: NetworkPolicy,
  pod: Pick<PolicyPod, "namespace" | "labels">,
): boolean {
  return metadata.namespace === pod.namespace && matchesLabels(spec?.podSelector ?? {}, pod.labels);
}
