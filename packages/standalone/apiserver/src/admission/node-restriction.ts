// SPDX-License-Identifier: Apache-2.0
// Lets nodes write only their own objects. Source: Kubernetes NodeRestriction admission.
import { parseNodeName } from "../auth/node-authorizer.ts";
import { forbiddenBecause } from "../auth/forbidden.ts";
import { equalJson, asFields, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { AdmissionRequest } from "./admission.ts";

const LEASE_NAMESPACE = "kube-node-lease";
const OWN_POD_SUBRESOURCES: readonly string[] = ["status", "eviction"];
const RESERVED_DOMAIN = /(^|\.)(kubernetes\.io|k8s\.io)$/;
/** Labels that a kubelet may set although their prefix is reserved. Source: kubelet pkg/apis well_known_labels.go. */
const KUBELET_LABELS: ReadonlySet<string> = new Set([
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
const KUBELET_DOMAIN = /(^|\.)(kubelet|node)\.kubernetes\.io$/;

function isMirror({ metadata }: KubeObject): boolean {
  return metadata.annotations?.["kubernetes.io/config.mirror"] !== undefined;
}

type Fault = string | undefined;

function podSubresourceFault(node: string, request: AdmissionRequest): Fault {
  const { subresource, object, oldObject } = request;
  if (!OWN_POD_SUBRESOURCES.includes(subresource)) {
    return `unexpected pod subresource ${subresource}, only 'status' and 'eviction' are allowed`;
  }
  const changesLabels =
    subresource === "status" && !equalJson(object?.metadata.labels, oldObject?.metadata.labels);
  return changesLabels ? `node ${node} cannot update labels through pod status` : undefined;
}

function podWriteFault(node: string, request: AdmissionRequest): Fault {
  const { operation, subresource, object } = request;
  if (subresource !== "") {
    return podSubresourceFault(node, request);
  }
  if (operation === "UPDATE") {
    return `node ${node} is not allowed to update pods, only their status`;
  }
  const lacksMirrorAnnotation =
    operation === "CREATE" && !(object !== undefined && isMirror(object));
  return lacksMirrorAnnotation
    ? `pod does not have the mirror annotation, node ${node} can only create mirror pods`
    : undefined;
}

function podFault(node: string, request: AdmissionRequest): Fault {
  const fault = podWriteFault(node, request);
  const { operation, oldObject } = request;
  const isOwnPod = oldObject === undefined || textAt(oldObject, "spec", "nodeName") === node;
  if (fault !== undefined || isOwnPod) {
    return fault;
  }
  const action = operation === "DELETE" ? "delete pods" : "update the status of pods";
  return `node ${node} can only ${action} with spec.nodeName set to itself`;
}

function isReservedLabel(label: string): boolean {
  const domain = label.includes("/") ? (label.split("/")[0] ?? "") : "";
  return RESERVED_DOMAIN.test(domain) && !KUBELET_LABELS.has(label) && !KUBELET_DOMAIN.test(domain);
}

function changedLabels({ object, oldObject }: AdmissionRequest): readonly string[] {
  const oldLabels = oldObject?.metadata.labels ?? {};
  const newLabels = object?.metadata.labels ?? {};
  const names = new Set([...Object.keys(oldLabels), ...Object.keys(newLabels)]);
  return [...names].filter((name) => oldLabels[name] !== newLabels[name]);
}

function nodeFault(node: string, request: AdmissionRequest): Fault {
  const { operation, name, object, oldObject } = request;
  if (name !== node) {
    return `node ${node} is not allowed to modify node ${name}`;
  }
  if (operation === "DELETE") {
    return undefined;
  }
  const taints = (nodeObject: KubeObject | undefined): unknown =>
    asFields(nodeObject?.["spec"])["taints"] ?? [];
  if (operation === "UPDATE" && !equalJson(taints(object), taints(oldObject))) {
    return `node ${node} is not allowed to modify taints`;
  }
  const labels = changedLabels(request).filter(isReservedLabel);
  return labels.length === 0
    ? undefined
    : `is not allowed to modify labels: ${labels.toSorted().join(", ")}`;
}

function leaseFault(node: string, { namespace, name, object }: AdmissionRequest): Fault {
  const leaseName = name === "" ? (object?.metadata.name ?? "") : name;
  if (namespace !== LEASE_NAMESPACE) {
    return `can only access leases in the "${LEASE_NAMESPACE}" system namespace`;
  }
  return leaseName === node
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

/** Checks that a requested token is bound to one of the node's pods. */
function tokenFault(node: string, request: AdmissionRequest, store: PodLookup): Fault {
  const { namespace, subresource, operation, object } = request;
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

type PodLookup = Pick<Store, "find">;
type Rule = (node: string, request: AdmissionRequest, store: PodLookup) => Fault;

const RULES: Readonly<Record<string, Rule>> = {
  "/serviceaccounts": tokenFault,
  "/pods": podFault,
  "/nodes": nodeFault,
  "coordination.k8s.io/leases": leaseFault,
};

/** Throws a StatusError 403 if the user is a node that may not write the object. */
export function restrictNode(request: AdmissionRequest, store: PodLookup): void {
  const node = parseNodeName(request.user);
  const { kind, name, object } = request;
  const rule = RULES[`${kind.group}/${kind.resource}`];
  const fault = node === undefined ? undefined : rule?.(node, request, store);
  if (fault !== undefined) {
    const target = {
      group: kind.group,
      resource: kind.resource,
      name: name || (object?.metadata.name ?? ""),
    };
    throw forbiddenBecause(target, fault);
  }
}
