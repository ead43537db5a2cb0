// SPDX-License-Identifier: Apache-2.0
// Which objects does a pod need its node to read? Source: Kubernetes pkg/api/pod VisitPodSecretNames, VisitPodConfigmapNames.
import { CONTAINER_LISTS } from "../kinds/workload/pod-defaults.ts";
import { listOf, textAt, valueAt } from "../objects/json.ts";
import type { Store } from "../storage/store.ts";
import type { AccessAttributes, AccessDecision, Authorizer } from "./authorizer.ts";
import type { User } from "./user.ts";

/** Names in the pod's namespace. */
interface PodReferences {
  readonly persistentvolumeclaims: ReadonlySet<string>;
  readonly configmaps: ReadonlySet<string>;
  readonly secrets: ReadonlySet<string>;
}

function ofVolume(volume: unknown): { configmaps: string[]; secrets: string[] } {
  const sources = listOf(valueAt(volume, "projected", "sources"));
  return {
    configmaps: [volume, ...sources].map((one) => textAt(one, "configMap", "name")),
    secrets: [
      textAt(volume, "secret", "secretName"),
      ...sources.map((one) => textAt(one, "secret", "name")),
    ],
  };
}

function ofContainer(container: unknown): { configmaps: string[]; secrets: string[] } {
  const variables = listOf(valueAt(container, "env"));
  const from = listOf(valueAt(container, "envFrom"));
  return {
    configmaps: [
      ...variables.map((one) => textAt(one, "valueFrom", "configMapKeyRef", "name")),
      ...from.map((one) => textAt(one, "configMapRef", "name")),
    ],
    secrets: [
      ...variables.map((one) => textAt(one, "valueFrom", "secretKeyRef", "name")),
      ...from.map((one) => textAt(one, "secretRef", "name")),
    ],
  };
}

/** What the volumes, variables and pull secrets of a pod's specification name. */
function podReferencesOf(spec: unknown): PodReferences {
  const containers = CONTAINER_LISTS.flatMap((list) => listOf(valueAt(spec, list)));
  const all = [...listOf(valueAt(spec, "volumes")).map(ofVolume), ...containers.map(ofContainer)];
  const pulls = listOf(valueAt(spec, "imagePullSecrets")).map((one) => textAt(one, "name"));
  const claims = listOf(valueAt(spec, "volumes")).map((volume) =>
    textAt(volume, "persistentVolumeClaim", "claimName"),
  );
  return {
    persistentvolumeclaims: new Set(claims.filter(Boolean)),
    configmaps: new Set(all.flatMap(({ configmaps }) => configmaps).filter(Boolean)),
    secrets: new Set([...all.flatMap(({ secrets }) => secrets), ...pulls].filter(Boolean)),
  };
}

const NODES_GROUP = "system:nodes";
const NODE_USER_PREFIX = "system:node:";
/** How what pods name may be read. */
const READS: Readonly<Record<keyof PodReferences, readonly string[]>> = {
  configmaps: ["get", "list", "watch"],
  secrets: ["get", "list", "watch"],
  persistentvolumeclaims: ["get"],
};

function isReference(resource: string): resource is keyof PodReferences {
  return Object.hasOwn(READS, resource);
}

/** The node that asks; undefined where somebody else does. */
export function nodeOf({ name, groups }: User): string | undefined {
  const isNode = groups.includes(NODES_GROUP) && name.startsWith(NODE_USER_PREFIX);
  return isNode ? name.slice(NODE_USER_PREFIX.length) : undefined;
}

/** Whether a pod with that specification is reason enough. */
type Need = (spec: unknown) => boolean;

function needOf({ group, resource, subresource, verb, name }: AccessAttributes): Need | undefined {
  if (group !== "" || name === "") {
    return undefined;
  }
  if (resource === "serviceaccounts" && subresource === "token" && verb === "create") {
    return (spec) => textAt(spec, "serviceAccountName") === name;
  }
  if (!isReference(resource) || subresource !== "") {
    return undefined;
  }
  return READS[resource].includes(verb)
    ? (spec) => podReferencesOf(spec)[resource].has(name)
    : undefined;
}

/** Where pods and volumes are looked up. */
type Lookup = Pick<Store, "find" | "list">;

/** A volume is read by way of the claim that has it. */
function throughClaim(store: Lookup, attributes: AccessAttributes): AccessAttributes {
  const { group, resource, subresource, verb, name } = attributes;
  const isVolume = group === "" && resource === "persistentvolumes" && subresource === "";
  if (!isVolume || verb !== "get" || name === "") {
    return attributes;
  }
  const volume = store.find({ bucket: "/persistentvolumes", namespace: "", name })?.view();
  const claim = valueAt(volume, "spec", "claimRef");
  const [namespace, claimName] = [textAt(claim, "namespace"), textAt(claim, "name")];
  return { ...attributes, resource: "persistentvolumeclaims", namespace, name: claimName };
}

function hasNeed(store: Lookup, node: string, asked: AccessAttributes): boolean {
  const attributes = throughClaim(store, asked);
  const need = needOf(attributes);
  if (need === undefined || attributes.namespace === "") {
    return false;
  }
  const pods = store.list({ bucket: "/pods", namespace: attributes.namespace });
  return pods.some((pod) => {
    const spec = valueAt(pod.view(), "spec");
    return textAt(spec, "nodeName") === node && need(spec);
  });
}

/** Asks the roles first, and then what the node's pods need. */
export function withNodes(authorizer: Authorizer, store: Lookup): Authorizer {
  const authorize = (user: User, attributes: AccessAttributes): AccessDecision => {
    const decision = authorizer.authorize(user, attributes);
    const node = nodeOf(user);
    const isAllowed = !decision.allowed && node !== undefined && hasNeed(store, node, attributes);
    return isAllowed ? { allowed: true, reason: "", isByPods: true } : decision;
  };
  return {
    authorize,
    rulesFor: (user, namespace) => authorizer.rulesFor(user, namespace),
    rulesOf: (roleRef, namespace) => authorizer.rulesOf(roleRef, namespace),
  };
}
