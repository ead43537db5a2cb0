// SPDX-License-Identifier: Apache-2.0
import type { Fields } from "../objects/json.ts";
import {
  type FieldShape,
  type ObjectShape,
  type Scalar,
  type Shape,
  findKindByType,
} from "../shapes/shape.ts";

const API_VERSION_DESCRIPTION =
  "Group and version of the object; optional, because the path contains it.";
const KIND_DESCRIPTION = "Kind of the object; optional, because the path determines it.";
const SPEC_DESCRIPTION = "Desired state.";
const STATUS_DESCRIPTION = "Observed state; written by the component that runs the object.";

/** Descriptions in `kubectl explain`, by type or by type and field. */
const DESCRIPTIONS: Readonly<Record<string, string>> = {
  "admissionregistration.v1.MutatingWebhookConfiguration":
    "Servers that may change objects before they are stored.",
  "admissionregistration.v1.ValidatingWebhookConfiguration":
    "Servers that may reject objects before they are stored.",
  "apiextensions.v1.CustomResourceDefinition": "A kind that is added to the API.",
  "apiregistration.v1.APIService": "A server for a group version.",
  "apps.v1.ControllerRevision": "An earlier state of a controller's pod template.",
  "apps.v1.DaemonSet": "A pod on every node. No controller handles it.",
  "apps.v1.Deployment":
    "Pods that are replaced step by step when their template changes. No controller handles it.",
  "apps.v1.ReplicaSet": "A number of equal pods. No controller handles it.",
  "apps.v1.StatefulSet": "Pods with stable names and volumes. No controller handles it.",
  "autoscaling.v1.Scale": "Current and desired number of replicas.",
  "coordination.v1.Lease": "Leader of a group of processes, or heartbeat of a node.",
  "core.v1.Binding": "Assigns a pod to a node.",
  "core.v1.ConfigMap": "Settings for pods, as strings.",
  "core.v1.ConfigMap.binaryData": "Binary values, in base64.",
  "core.v1.ConfigMap.data": "Values by key.",
  "core.v1.ConfigMap.immutable": "Whether the values are immutable.",
  "core.v1.Container": "A process that runs from an image.",
  "core.v1.Container.args": "Arguments of the command.",
  "core.v1.Container.command": "The program to run instead of the image's own.",
  "core.v1.Container.env": "Environment variables.",
  "core.v1.Container.image": "Name of the image.",
  "core.v1.Container.livenessProbe": "Probe that decides whether the container must be restarted.",
  "core.v1.Container.name": "Name of the container, unique in the pod; it cannot be changed.",
  "core.v1.Container.readinessProbe":
    "Probe that decides whether the container can serve requests.",
  "core.v1.Container.resources": "Resource requests and limits of the container.",
  "core.v1.Container.volumeMounts": "Mount paths of the pod's volumes.",
  "core.v1.Endpoints": "Addresses of a Service's endpoints.",
  "core.v1.Event": "Something that happened to an object.",
  "core.v1.LimitRange": "Limits and defaults for the resources of a namespace's pods.",
  "core.v1.Namespace": "A scope for names.",
  "core.v1.Node": "A machine that runs pods.",
  "core.v1.PersistentVolumeClaim": "A request for storage.",
  "core.v1.Pod": "Containers that run together on a node.",
  "core.v1.PodSpec": "What the pod runs.",
  "core.v1.PodSpec.containers": "Containers of the pod.",
  "core.v1.PodSpec.initContainers": "Containers that run to completion first, in this order.",
  "core.v1.PodSpec.nodeName": "The node on which the pod runs.",
  "core.v1.PodSpec.restartPolicy": "Always, OnFailure or Never.",
  "core.v1.PodSpec.terminationGracePeriodSeconds": "Time that the pod has to stop, seconds.",
  "core.v1.PodSpec.volumes": "Volumes that containers can mount.",
  "core.v1.PodTemplateSpec": "Template for new pods.",
  "core.v1.ResourceQuota": "Resource limits of a whole namespace.",
  "core.v1.Secret": "Confidential values.",
  "core.v1.Secret.data": "Values by key, in base64.",
  "core.v1.Secret.stringData": "Values by key, as strings; write-only, added to data.",
  "core.v1.Secret.type": "Purpose of the values.",
  "core.v1.Service": "A name and an address for the pods that a selector matches.",
  "core.v1.ServiceAccount": "Identity of a pod's processes.",
  "discovery.v1.EndpointSlice": "A part of the addresses of a Service's endpoints.",
  "events.v1.Event": "Something that happened to an object.",
  "meta.v1.LabelSelector": "Labels that objects must have; all requirements must match.",
  "meta.v1.ListMeta": "Metadata of a list.",
  "meta.v1.ObjectMeta": "Metadata of an object.",
  "meta.v1.ObjectMeta.annotations": "Values by key, for tools.",
  "meta.v1.ObjectMeta.creationTimestamp": "Creation time; set by the server.",
  "meta.v1.ObjectMeta.deletionTimestamp": "Time of the deletion request; set by the server.",
  "meta.v1.ObjectMeta.finalizers": "Finalizers that must be removed before the object is deleted.",
  "meta.v1.ObjectMeta.generateName": "Prefix of a name that the server completes.",
  "meta.v1.ObjectMeta.generation": "Generation of the desired state; set by the server.",
  "meta.v1.ObjectMeta.labels": "Values by key by which objects are selected.",
  "meta.v1.ObjectMeta.name": "Name of the object, unique for its kind in a namespace.",
  "meta.v1.ObjectMeta.namespace": "Namespace of the object.",
  "meta.v1.ObjectMeta.ownerReferences":
    "Owners; the object is deleted when all of them are deleted.",
  "meta.v1.ObjectMeta.resourceVersion": "Revision of the stored state; set by the server.",
  "meta.v1.ObjectMeta.uid": "Unique identifier over time and space; set by the server.",
  "meta.v1.OwnerReference": "An owner; the object is deleted when all owners are deleted.",
  "networking.v1.NetworkPolicy": "Allowed traffic of pods. Here it restricts only VMs.",
  "policy.v1.Eviction": "Request to delete a pod if its disruption budget allows it.",
  "policy.v1.PodDisruptionBudget": "How many pods may be unavailable at a time.",
  "rbac.v1.ClusterRole": "Permissions in the whole cluster.",
  "rbac.v1.ClusterRoleBinding": "Grants a role to users, groups or accounts in the whole cluster.",
  "rbac.v1.Role": "Permissions in a namespace.",
  "rbac.v1.RoleBinding": "Grants a role to users, groups or accounts in a namespace.",
  "scheduling.v1.PriorityClass": "A name for a pod's priority.",
  "storage.v1.StorageClass": "Provisioner of volumes for claims, and its settings.",
};

const DESCRIPTIONS_BY_FIELD: Readonly<Record<string, string>> = {
  apiVersion: API_VERSION_DESCRIPTION,
  kind: KIND_DESCRIPTION,
  spec: SPEC_DESCRIPTION,
  status: STATUS_DESCRIPTION,
};

/** Returns the description of a type (`core.v1.Pod`) or a field (`core.v1.Pod.spec`). */
export function findDescription(name: string): string | undefined {
  const [, , type = "", field = /Spec$|Status$/.exec(type)?.[0].toLowerCase() ?? ""] =
    name.split(".");
  return DESCRIPTIONS[name] ?? DESCRIPTIONS_BY_FIELD[field];
}

export type OpenApiVersion = "v2" | "v3";

const PACKAGE_PREFIXES: Readonly<Record<string, string>> = {
  meta: "io.k8s.apimachinery.pkg.apis.meta",
  apiextensions: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
  apiregistration: "io.k8s.kube-aggregator.pkg.apis.apiregistration",
};

/** Returns, for example, `io.k8s.api.core.v1.Pod`. */
export function typeDefinitionName(shape: ObjectShape): string {
  const [group = "", ...rest] = shape.name.split(".");
  return [PACKAGE_PREFIXES[group] ?? `io.k8s.api.${group}`, ...rest].join(".");
}

export function reference(name: string, version: OpenApiVersion): Fields {
  return { $ref: version === "v2" ? `#/definitions/${name}` : `#/components/schemas/${name}` };
}

const SCALARS: Readonly<Record<Scalar, Fields>> = {
  string: { type: "string" },
  boolean: { type: "boolean" },
  int32: { type: "integer", format: "int32" },
  int64: { type: "integer", format: "int64" },
  double: { type: "number", format: "double" },
  bytes: { type: "string", format: "byte" },
  time: { type: "string", format: "date-time" },
  "micro-time": { type: "string", format: "date-time" },
  "int-or-string": { type: "string", format: "int-or-string" },
  quantity: { type: "string" },
  any: { type: "object" },
};

/** Schemas of scalars that OpenAPI v2 cannot express. */
const SCALARS_V3: Readonly<Partial<Record<Scalar, Fields>>> = {
  "int-or-string": { oneOf: [{ type: "integer" }, { type: "string" }], format: "int-or-string" },
  quantity: { oneOf: [{ type: "string" }, { type: "number" }] },
  any: { "x-kubernetes-preserve-unknown-fields": true },
};

function toSchema(shape: Shape, version: OpenApiVersion): Fields {
  switch (shape.type) {
    case "scalar":
      return (version === "v3" ? SCALARS_V3[shape.scalar] : undefined) ?? SCALARS[shape.scalar];
    case "list":
      return { type: "array", items: toSchema(shape.items, version) };
    case "map":
      return { type: "object", additionalProperties: toSchema(shape.items, version) };
    case "object":
      return reference(typeDefinitionName(shape), version);
  }
}

function mergeHints({ merge }: FieldShape): Fields {
  if (merge === undefined) {
    return {};
  }
  return {
    ...(merge.key === undefined ? {} : { "x-kubernetes-patch-merge-key": merge.key }),
    "x-kubernetes-patch-strategy": merge.strategy,
  };
}

function descriptionField(name: string): Fields {
  const description = findDescription(name);
  return description === undefined ? {} : { description };
}

function toDefinition(shape: ObjectShape, version: OpenApiVersion): Fields {
  const fields = [...shape.fields];
  const required = fields.filter(([, field]) => field.required).map(([name]) => name);
  const gvk = findKindByType(shape.name);
  return {
    type: "object",
    ...descriptionField(shape.name),
    ...(required.length === 0 ? {} : { required }),
    properties: Object.fromEntries(
      fields.map(([name, field]) => [
        name,
        {
          ...descriptionField(`${shape.name}.${name}`),
          ...toSchema(field.shape, version),
          ...mergeHints(field),
        },
      ]),
    ),
    ...(gvk === undefined ? {} : { "x-kubernetes-group-version-kind": [gvk] }),
  };
}

function referencedTypes(shape: Shape): ObjectShape[] {
  switch (shape.type) {
    case "scalar":
      return [];
    case "list":
    case "map":
      return referencedTypes(shape.items);
    case "object":
      return [shape];
  }
}

export function shapeDefinitions(
  roots: readonly ObjectShape[],
  version: OpenApiVersion,
): readonly (readonly [string, Fields])[] {
  const foundShapes = new Set<ObjectShape>();
  const queue = [...roots];
  for (let current = queue.pop(); current !== undefined; current = queue.pop()) {
    if (!foundShapes.has(current)) {
      foundShapes.add(current);
      queue.push(...[...current.fields.values()].flatMap(({ shape }) => referencedTypes(shape)));
    }
  }
  return [...foundShapes]
    .map((shape) => [typeDefinitionName(shape), toDefinition(shape, version)] as const)
    .sort(([left], [right]) => (left < right ? -1 : 1));
}
