// SPDX-License-Identifier: Apache-2.0
// OpenAPI definitions of built-in kinds, one for each type.
import type { Fields } from "../objects/json.ts";
import {
  type FieldShape,
  type ObjectShape,
  type Scalar,
  type Shape,
  kindOfType,
} from "../shapes/shape.ts";

const API_VERSION_DESCRIPTION =
  "Group and version of the object; a client may leave it out where the path says it.";
const KIND_DESCRIPTION = "Kind of the object; a client may leave it out where the path says it.";
const SPEC_DESCRIPTION = "What is wanted.";
const STATUS_DESCRIPTION = "What was observed; written by the component that runs the object.";

/** Descriptions in `kubectl explain`, by type or by type and field. */
const DESCRIPTIONS: Readonly<Record<string, string>> = {
  "admissionregistration.v1.MutatingWebhookConfiguration":
    "Servers that may change objects before they are stored.",
  "admissionregistration.v1.ValidatingWebhookConfiguration":
    "Servers that may refuse objects before they are stored.",
  "apiextensions.v1.CustomResourceDefinition": "A kind that is added to the server.",
  "apiregistration.v1.APIService": "A server that has a group version.",
  "apps.v1.ControllerRevision": "A former state of what a controller made pods from.",
  "apps.v1.DaemonSet": "A pod on every node. Without a controller nothing acts on it.",
  "apps.v1.Deployment":
    "Pods that are replaced step by step when they change. Without a controller nothing acts on it.",
  "apps.v1.ReplicaSet": "A number of equal pods. Without a controller nothing acts on it.",
  "apps.v1.StatefulSet":
    "Pods with names and volumes of their own. Without a controller nothing acts on it.",
  "autoscaling.v1.Scale": "How many there are and how many there should be.",
  "coordination.v1.Lease": "Who leads, or that somebody still lives.",
  "core.v1.Binding": "Puts a pod onto a node.",
  "core.v1.ConfigMap": "Settings for pods, as texts.",
  "core.v1.ConfigMap.binaryData": "Values that are no texts, in base64.",
  "core.v1.ConfigMap.data": "Texts by name.",
  "core.v1.ConfigMap.immutable": "Whether the values can no longer be changed.",
  "core.v1.Container": "A process that runs from an image.",
  "core.v1.Container.args": "Arguments of the command.",
  "core.v1.Container.command": "The program to run instead of the image's own.",
  "core.v1.Container.env": "Variables of the environment.",
  "core.v1.Container.image": "Name of the image.",
  "core.v1.Container.livenessProbe": "How to find out that the container has to be restarted.",
  "core.v1.Container.name": "Name of the container, unique in the pod; it cannot be changed.",
  "core.v1.Container.readinessProbe": "How to find out that the container can serve.",
  "core.v1.Container.resources": "What the container needs, and what it may use.",
  "core.v1.Container.volumeMounts": "Where volumes of the pod appear.",
  "core.v1.Endpoints": "Addresses behind a service.",
  "core.v1.Event": "Something that happened to an object.",
  "core.v1.LimitRange": "Bounds and defaults for the resources of a namespace's pods.",
  "core.v1.Namespace": "A scope for names.",
  "core.v1.Node": "A machine that runs pods.",
  "core.v1.PersistentVolumeClaim": "A request for storage.",
  "core.v1.Pod": "Containers that run together on a node.",
  "core.v1.PodSpec": "What the pod runs.",
  "core.v1.PodSpec.containers": "Containers of the pod.",
  "core.v1.PodSpec.initContainers": "Containers that run to their end first, in this order.",
  "core.v1.PodSpec.nodeName": "The node that the pod is on.",
  "core.v1.PodSpec.restartPolicy": "Always, OnFailure or Never.",
  "core.v1.PodSpec.terminationGracePeriodSeconds": "How long the pod may take to end.",
  "core.v1.PodSpec.volumes": "Volumes that containers can mount.",
  "core.v1.PodTemplateSpec": "What pods are made from.",
  "core.v1.ResourceQuota": "How much a namespace may use in all.",
  "core.v1.Secret": "Values that not everybody may read.",
  "core.v1.Secret.data": "Values by name, in base64.",
  "core.v1.Secret.stringData": "Values by name as texts; only to be written, they become data.",
  "core.v1.Secret.type": "What the values are for.",
  "core.v1.Service": "A name and an address for the pods that a selector matches.",
  "core.v1.ServiceAccount": "Whom the processes of a pod act as.",
  "discovery.v1.EndpointSlice": "A part of the addresses behind a service.",
  "events.v1.Event": "Something that happened to an object.",
  "meta.v1.LabelSelector": "Labels that objects must have; all of its parts must match.",
  "meta.v1.ListMeta": "Metadata of a list.",
  "meta.v1.ObjectMeta": "Metadata of an object.",
  "meta.v1.ObjectMeta.annotations": "Texts by name, for tools.",
  "meta.v1.ObjectMeta.creationTimestamp": "When the object was made; set by the server.",
  "meta.v1.ObjectMeta.deletionTimestamp": "When deletion was asked for; set by the server.",
  "meta.v1.ObjectMeta.finalizers": "Who has to agree before the object is gone.",
  "meta.v1.ObjectMeta.generateName": "Beginning of a name that the server completes.",
  "meta.v1.ObjectMeta.generation": "Number of the wanted state; set by the server.",
  "meta.v1.ObjectMeta.labels": "Texts by name by which objects are selected.",
  "meta.v1.ObjectMeta.name": "Name of the object, unique for its kind in a namespace.",
  "meta.v1.ObjectMeta.namespace": "Namespace of the object.",
  "meta.v1.ObjectMeta.ownerReferences": "Objects without which this one is to be deleted.",
  "meta.v1.ObjectMeta.resourceVersion": "Number of the stored state; set by the server.",
  "meta.v1.ObjectMeta.uid": "Unlike any other object's, before and after; set by the server.",
  "meta.v1.OwnerReference": "An object without which this one is to be deleted.",
  "networking.v1.NetworkPolicy": "Who may talk to pods. Nothing enforces it here.",
  "policy.v1.Eviction": "Asks to delete a pod if its disruption budget allows that.",
  "policy.v1.PodDisruptionBudget": "How many pods may be missing at a time.",
  "rbac.v1.ClusterRole": "What may be done, in the whole cluster.",
  "rbac.v1.ClusterRoleBinding": "Gives a role to somebody, in the whole cluster.",
  "rbac.v1.Role": "What may be done in a namespace.",
  "rbac.v1.RoleBinding": "Gives a role to somebody in a namespace.",
  "scheduling.v1.PriorityClass": "A name for a pod's priority.",
  "storage.v1.StorageClass": "Who makes volumes for claims, and when.",
};

const BY_FIELD: Readonly<Record<string, string>> = {
  apiVersion: API_VERSION_DESCRIPTION,
  kind: KIND_DESCRIPTION,
  spec: SPEC_DESCRIPTION,
  status: STATUS_DESCRIPTION,
};

/** `name` is a type (`core.v1.Pod`) or a field (`core.v1.Pod.spec`). */
export function findDescription(name: string): string | undefined {
  const [, , type = "", field = /Spec$|Status$/.exec(type)?.[0].toLowerCase() ?? ""] =
    name.split(".");
  return DESCRIPTIONS[name] ?? BY_FIELD[field];
}

export type OpenApiVersion = "v2" | "v3";

const PACKAGE_PREFIXES: Readonly<Record<string, string>> = {
  meta: "io.k8s.apimachinery.pkg.apis.meta",
  apiextensions: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
  apiregistration: "io.k8s.kube-aggregator.pkg.apis.apiregistration",
};

/** For example `io.k8s.api.core.v1.Pod`. */
export function typeDefinitionName(shape: ObjectShape): string {
  const [home = "", ...rest] = shape.name.split(".");
  return [PACKAGE_PREFIXES[home] ?? `io.k8s.api.${home}`, ...rest].join(".");
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

/** Types that only v3 can express. */
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
      return { type: "array", items: toSchema(shape.of, version) };
    case "map":
      return { type: "object", additionalProperties: toSchema(shape.of, version) };
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

function describe(name: string): Fields {
  const description = findDescription(name);
  return description === undefined ? {} : { description };
}

function toDefinition(shape: ObjectShape, version: OpenApiVersion): Fields {
  const fields = [...shape.fields];
  const required = fields.filter(([, field]) => field.required).map(([name]) => name);
  const gvk = kindOfType(shape.name);
  return {
    type: "object",
    ...describe(shape.name),
    ...(required.length === 0 ? {} : { required }),
    properties: Object.fromEntries(
      fields.map(([name, field]) => [
        name,
        {
          ...describe(`${shape.name}.${name}`),
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
      return referencedTypes(shape.of);
    case "object":
      return [shape];
  }
}

export function shapeDefinitions(
  roots: readonly ObjectShape[],
  version: OpenApiVersion,
): readonly (readonly [string, Fields])[] {
  const found = new Set<ObjectShape>();
  const waiting = [...roots];
  for (let pending = waiting.pop(); pending !== undefined; pending = waiting.pop()) {
    if (!found.has(pending)) {
      found.add(pending);
      waiting.push(...[...pending.fields.values()].flatMap(({ shape }) => referencedTypes(shape)));
    }
  }
  return [...found]
    .map((shape) => [typeDefinitionName(shape), toDefinition(shape, version)] as const)
    .sort(([left], [right]) => (left < right ? -1 : 1));
}
