// SPDX-License-Identifier: Apache-2.0
// A node writes only what is its own, whatever its role grants. Source: Kubernetes NodeRestriction admission.
import { forbiddenBecause } from "../auth/refusal.ts";
import { equalJson, fieldsOf, textAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { AdmissionQuestion } from "./admission.ts";

const NODES_GROUP = "system:nodes";
const NODE_USER_PREFIX = "system:node:";
const LEASE_NAMESPACE = "kube-node-lease";
const OWN_POD_SUBRESOURCES: readonly string[] = ["status", "eviction"];
/** Labels below these domains are the cluster's own. */
const RESERVED = /(^|\.)(kubernetes\.io|k8s\.io)$/;
/** Of those a node may set these about itself. Source: kubelet pkg/apis well_known_labels.go. */
const OWN_LABELS: ReadonlySet<string> = new Set([
  "kubernetes.io/hostname",
  "kubernetes.io/arch",
  "kubernetes.io/os",
  "beta.kubernetes.io/arch",
  "beta.kubernetes.io/os",
  "beta.kubernetes.io/instance-type",
  "node.kubernetes.io/instance-type",
  "failure-domain.beta.kubernetes.io/zone",
  "failure-domain.beta.kubernetes.io/region",
  "topology.kubernetes.io/zone",
  "topology.kubernetes.io/region",
]);
const OWN_DOMAINS = /(^|\.)(kubelet|node)\.kubernetes\.io$/;

/** The node that asks; undefined where somebody else does. */
function nodeOf({ user }: AdmissionQuestion): string | undefined {
  const isNode = user.groups.includes(NODES_GROUP) && user.name.startsWith(NODE_USER_PREFIX);
  return isNode ? user.name.slice(NODE_USER_PREFIX.length) : undefined;
}

function isMirror({ metadata }: KubeObject): boolean {
  return metadata.annotations?.["kubernetes.io/config.mirror"] !== undefined;
}

type Fault = string | undefined;

function podSubresourceFault(node: string, question: AdmissionQuestion): Fault {
  const { subresource, object, oldObject } = question;
  if (!OWN_POD_SUBRESOURCES.includes(subresource)) {
    return `unexpected pod subresource ${subresource}, only 'status' and 'eviction' are allowed`;
  }
  const isRelabelled =
    subresource === "status" && !equalJson(object?.metadata.labels, oldObject?.metadata.labels);
  return isRelabelled ? `node ${node} cannot update labels through pod status` : undefined;
}

function podWriteFault(node: string, question: AdmissionQuestion): Fault {
  const { operation, subresource, object } = question;
  if (subresource !== "") {
    return podSubresourceFault(node, question);
  }
  if (operation === "UPDATE") {
    return `node ${node} is not allowed to update pods, only their status`;
  }
  const isForeign = operation === "CREATE" && !(object !== undefined && isMirror(object));
  return isForeign
    ? `pod does not have the mirror annotation, node ${node} can only create mirror pods`
    : undefined;
}

function podFault(node: string, question: AdmissionQuestion): Fault {
  const fault = podWriteFault(node, question);
  const { operation, oldObject } = question;
  const isOwn = oldObject === undefined || textAt(oldObject, "spec", "nodeName") === node;
  if (fault !== undefined || isOwn) {
    return fault;
  }
  const what = operation === "DELETE" ? "delete pods" : "update the status of pods";
  return `node ${node} can only ${what} with spec.nodeName set to itself`;
}

function isReservedLabel(label: string): boolean {
  const domain = label.includes("/") ? (label.split("/")[0] ?? "") : "";
  return RESERVED.test(domain) && !OWN_LABELS.has(label) && !OWN_DOMAINS.test(domain);
}

function changedLabels({ object, oldObject }: AdmissionQuestion): readonly string[] {
  const before = oldObject?.metadata.labels ?? {};
  const after = object?.metadata.labels ?? {};
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => before[name] !== after[name]);
}

function nodeFault(node: string, question: AdmissionQuestion): Fault {
  const { operation, name, object, oldObject } = question;
  if (name !== node) {
    return `node ${node} is not allowed to modify node ${name}`;
  }
  if (operation === "DELETE") {
    return undefined;
  }
  const taints = (of: KubeObject | undefined): unknown => fieldsOf(of?.["spec"])["taints"] ?? [];
  if (operation === "UPDATE" && !equalJson(taints(object), taints(oldObject))) {
    return `node ${node} is not allowed to modify taints`;
  }
  const labels = changedLabels(question).filter(isReservedLabel);
  return labels.length === 0
    ? undefined
    : `is not allowed to modify labels: ${labels.toSorted().join(", ")}`;
}

function leaseFault(node: string, { namespace, name, object }: AdmissionQuestion): Fault {
  const asked = name === "" ? (object?.metadata.name ?? "") : name;
  if (namespace !== LEASE_NAMESPACE) {
    return `can only access leases in the "${LEASE_NAMESPACE}" system namespace`;
  }
  return asked === node
    ? undefined
    : "can only access node lease with the same name as the requesting node";
}

const RULES: Readonly<Record<string, (node: string, question: AdmissionQuestion) => Fault>> = {
  "/pods": podFault,
  "/nodes": nodeFault,
  "coordination.k8s.io/leases": leaseFault,
};

/** Refuses what a node writes of others. Throws a StatusError 403. */
export function restrictNode(question: AdmissionQuestion): void {
  const node = nodeOf(question);
  const { kind, name, object } = question;
  const fault =
    node === undefined ? undefined : RULES[`${kind.group}/${kind.resource}`]?.(node, question);
  if (fault !== undefined) {
    const about = {
      group: kind.group,
      resource: kind.resource,
      name: name || (object?.metadata.name ?? ""),
    };
    throw forbiddenBecause(about, fault);
  }
}
