// SPDX-License-Identifier: Apache-2.0
// A node writes only what is its own, whatever its role grants. Source: Kubernetes NodeRestriction admission.
import { nodeOf } from "../auth/node-authorizer.ts";
import { forbiddenBecause } from "../auth/forbidden.ts";
import { equalJson, fieldsOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { AdmissionQuestion } from "./admission.ts";

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

function uidFault(reference: unknown, pod: KubeObject): Fault {
  const uid = textAt(reference, "uid");
  if (uid === "") {
    return "node requested token with a pod binding without a uid";
  }
  return uid === pod.metadata.uid
    ? undefined
    : `the UID in the bound object reference (${uid}) does not match the UID in record. The object might have been deleted and then recreated`;
}

/** A node asks for tokens of its own pods only, which end with the pods. */
function tokenFault(node: string, question: AdmissionQuestion, store: PodLookup): Fault {
  const { namespace, subresource, operation, object } = question;
  if (subresource !== "token" || operation !== "CREATE") {
    return undefined;
  }
  const reference = valueAt(object, "spec", "boundObjectRef");
  if (textAt(reference, "kind") !== "Pod" || textAt(reference, "apiVersion") !== "v1") {
    return "node requested token not bound to a pod";
  }
  const name = textAt(reference, "name");
  const pod = store.find({ bucket: "/pods", namespace, name })?.view();
  if (pod === undefined || textAt(pod, "spec", "nodeName") !== node) {
    return "node requested token bound to a pod scheduled on a different node";
  }
  return uidFault(reference, pod);
}

/** Where pods are looked up. */
type PodLookup = Pick<Store, "find">;
type Rule = (node: string, question: AdmissionQuestion, store: PodLookup) => Fault;

const RULES: Readonly<Record<string, Rule>> = {
  "/serviceaccounts": tokenFault,
  "/pods": podFault,
  "/nodes": nodeFault,
  "coordination.k8s.io/leases": leaseFault,
};

/** Refuses what a node writes of others. Throws a StatusError 403. */
export function restrictNode(question: AdmissionQuestion, store: PodLookup): void {
  const node = nodeOf(question.user);
  const { kind, name, object } = question;
  const rule = RULES[`${kind.group}/${kind.resource}`];
  const fault = node === undefined ? undefined : rule?.(node, question, store);
  if (fault !== undefined) {
    const about = {
      group: kind.group,
      resource: kind.resource,
      name: name || (object?.metadata.name ?? ""),
    };
    throw forbiddenBecause(about, fault);
  }
}
