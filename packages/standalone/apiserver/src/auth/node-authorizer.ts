// SPDX-License-Identifier: Apache-2.0
// Kubernetes Node authorizer: nodes may read objects that their pods reference, and request tokens for their pods.
import { CONTAINER_LISTS } from "../kinds/workload/pod-defaults.ts";
import { asList, textAt, valueAt } from "../objects/json.ts";
import type { Store, StoredObject } from "../storage/store.ts";
import type { AccessAttributes, AccessDecision, Authorizer } from "./authorizer.ts";
import type { User } from "./user.ts";

interface PodReferences {
  readonly persistentvolumeclaims: ReadonlySet<string>;
  readonly configmaps: ReadonlySet<string>;
  readonly secrets: ReadonlySet<string>;
}

function volumeReferences(volume: unknown): { configmaps: string[]; secrets: string[] } {
  const sources = asList(valueAt(volume, "projected", "sources"));
  return {
    configmaps: [volume, ...sources].map((item) => textAt(item, "configMap", "name")),
    secrets: [
      textAt(volume, "secret", "secretName"),
      ...sources.map((item) => textAt(item, "secret", "name")),
    ],
  };
}

function containerReferences(container: unknown): { configmaps: string[]; secrets: string[] } {
  const variables = asList(valueAt(container, "env"));
  const envSources = asList(valueAt(container, "envFrom"));
  return {
    configmaps: [
      ...variables.map((item) => textAt(item, "valueFrom", "configMapKeyRef", "name")),
      ...envSources.map((item) => textAt(item, "configMapRef", "name")),
    ],
    secrets: [
      ...variables.map((item) => textAt(item, "valueFrom", "secretKeyRef", "name")),
      ...envSources.map((item) => textAt(item, "secretRef", "name")),
    ],
  };
}

/** Returns the names of the objects that a pod references. Source: Kubernetes VisitPodSecretNames, VisitPodConfigmapNames. */
function listPodReferences(spec: unknown): PodReferences {
  const containers = CONTAINER_LISTS.flatMap((list) => asList(valueAt(spec, list)));
  const references = [
    ...asList(valueAt(spec, "volumes")).map(volumeReferences),
    ...containers.map(containerReferences),
  ];
  const pullSecrets = asList(valueAt(spec, "imagePullSecrets")).map((item) => textAt(item, "name"));
  const claims = asList(valueAt(spec, "volumes")).map((volume) =>
    textAt(volume, "persistentVolumeClaim", "claimName"),
  );
  return {
    persistentvolumeclaims: new Set(claims.filter(Boolean)),
    configmaps: new Set(references.flatMap(({ configmaps }) => configmaps).filter(Boolean)),
    secrets: new Set(
      [...references.flatMap(({ secrets }) => secrets), ...pullSecrets].filter(Boolean),
    ),
  };
}

const REFERENCES = new WeakMap<StoredObject, PodReferences>();

function findPodReferences(pod: StoredObject): PodReferences {
  const known = REFERENCES.get(pod);
  if (known !== undefined) return known;
  const references = listPodReferences(valueAt(pod.view(), "spec"));
  REFERENCES.set(pod, references);
  return references;
}

const NODES_GROUP = "system:nodes";
const NODE_USER_PREFIX = "system:node:";
const ALLOWED_VERBS: Readonly<Record<keyof PodReferences, readonly string[]>> = {
  configmaps: ["get", "list", "watch"],
  secrets: ["get", "list", "watch"],
  persistentvolumeclaims: ["get"],
};

function isReferencedResource(resource: string): resource is keyof PodReferences {
  return Object.hasOwn(ALLOWED_VERBS, resource);
}

export function parseNodeName({ name, groups }: User): string | undefined {
  const isNode = groups.includes(NODES_GROUP) && name.startsWith(NODE_USER_PREFIX);
  return isNode ? name.slice(NODE_USER_PREFIX.length) : undefined;
}

type PodTest = (pod: StoredObject) => boolean;

function podTest(attributes: AccessAttributes): PodTest | undefined {
  const { group, resource, subresource, verb, name, isMetadataOnly = false } = attributes;
  if (group !== "") {
    return undefined;
  }
  if (resource === "serviceaccounts" && subresource === "token" && verb === "create") {
    return (pod) => name !== "" && textAt(pod.view(), "spec", "serviceAccountName") === name;
  }
  if (!isReferencedResource(resource) || subresource !== "") {
    return undefined;
  }
  if (!ALLOWED_VERBS[resource].includes(verb)) {
    return undefined;
  }
  if (name !== "") {
    return (pod) => findPodReferences(pod)[resource].has(name);
  }
  // Without a name, the request returns all objects of the namespace, so that one watch suffices for any number of references.
  return isMetadataOnly ? (pod) => findPodReferences(pod)[resource].size > 0 : undefined;
}

type Lookup = Pick<Store, "find" | "list">;

/** Converts a read of a volume to a read of its claim, because pods reference claims instead of volumes. */
function toClaimAttributes(store: Lookup, attributes: AccessAttributes): AccessAttributes {
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

function isNeededByPods(store: Lookup, node: string, requested: AccessAttributes): boolean {
  const attributes = toClaimAttributes(store, requested);
  const isReferenced = podTest(attributes);
  if (isReferenced === undefined || attributes.namespace === "") {
    return false;
  }
  const pods = store.list({ bucket: "/pods", namespace: attributes.namespace });
  return pods.some((pod) => textAt(pod.view(), "spec", "nodeName") === node && isReferenced(pod));
}

/** Adds the node authorizer: a request that RBAC denies to a node is allowed if the node's pods refer to the requested object. */
export function withNodeAuthorizer(authorizer: Authorizer, store: Lookup): Authorizer {
  const authorize = (user: User, attributes: AccessAttributes): AccessDecision => {
    const decision = authorizer.authorize(user, attributes);
    const node = parseNodeName(user);
    const isAllowed =
      !decision.allowed && node !== undefined && isNeededByPods(store, node, attributes);
    return isAllowed ? { allowed: true, reason: "", isAllowedByPods: true } : decision;
  };
  return {
    authorize,
    listUserRules: (user, namespace) => authorizer.listUserRules(user, namespace),
    listRoleRules: (roleRef, namespace) => authorizer.listRoleRules(roleRef, namespace),
  };
}
