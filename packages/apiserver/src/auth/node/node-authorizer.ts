// SPDX-License-Identifier: Apache-2.0
// What may a node do because of the pods that are bound to it? Source: Kubernetes Node authorizer: it reads the ConfigMaps and
// Secrets that they name, each by its name, and asks for tokens of their accounts.
import { textAt, valueAt } from "../../objects/json.ts";
import type { Store } from "../../storage/store.ts";
import type { Authorizer } from "../authorizer.ts";
import type { AccessAttributes, AccessDecision, User } from "../user.ts";
import { podReferencesOf } from "./pod-references.ts";

const NODES_GROUP = "system:nodes";
const NODE_USER_PREFIX = "system:node:";
const READ: readonly string[] = ["get", "list", "watch"];

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
  if ((resource !== "configmaps" && resource !== "secrets") || subresource !== "") {
    return undefined;
  }
  return READ.includes(verb) ? (spec) => podReferencesOf(spec)[resource].has(name) : undefined;
}

function hasNeed(store: Pick<Store, "list">, node: string, attributes: AccessAttributes): boolean {
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
export function withNodes(authorizer: Authorizer, store: Pick<Store, "list">): Authorizer {
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
