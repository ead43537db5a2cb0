// SPDX-License-Identifier: Apache-2.0
// Kinds that are kept and that nobody on this machine acts on: whoever writes one is told, and what to do instead.
import { fieldsOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Kind } from "./kind.ts";

const PODS_ALONE = "make pods themselves";

/** By kind: what to do instead; empty where nothing else does the same. */
const INSTEAD: Readonly<Record<string, string>> = {
  CronJob: PODS_ALONE,
  DaemonSet: PODS_ALONE,
  Deployment: PODS_ALONE,
  Ingress: "a VM is reached from elsewhere on a NIC in a network of this machine's own",
  Job: PODS_ALONE,
  LimitRange: "say in each pod what it gets",
  NetworkPolicy: "nothing is filtered by it; see portSecurity of a VM's interfaces",
  ReplicaSet: PODS_ALONE,
  ReplicationController: PODS_ALONE,
  ResourceQuota: "nothing is limited by it",
  Service:
    "from this machine a VM is reached at its pod's address, from elsewhere on a NIC in a network of this machine's own",
  StatefulSet: PODS_ALONE,
};

/** The server itself finds webhooks and aggregated servers by Services whose endpoints are given. */
function isForServer(service: KubeObject): boolean {
  const selector = fieldsOf(valueAt(service, "spec", "selector"));
  const type = textAt(service, "spec", "type") || "ClusterIP"; // defaults come later
  return type === "ClusterIP" && Object.keys(selector).length === 0;
}

function warningsOf(object: KubeObject, instead: string): readonly string[] {
  if (object.kind === "Service" && isForServer(object)) return [];
  return [`nothing on this machine acts on a ${object.kind}, it is only kept: ${instead}`];
}

/** The kind, which tells whoever writes an object that nobody will act on it. */
export function tellUnserved(kind: Kind): Kind {
  const instead = INSTEAD[kind.kind];
  if (instead === undefined) return kind;
  const warnings = (object: KubeObject): readonly string[] => warningsOf(object, instead);
  return { ...kind, strategy: { ...kind.strategy, warnings } };
}
