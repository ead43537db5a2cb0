// SPDX-License-Identifier: Apache-2.0
// May someone give these rights away? Only what they hold, unless they may escalate or bind.
// Source: Kubernetes "Privilege escalation prevention and bootstrapping".
import { notFound } from "../../meta/status.ts";
import type { Kind } from "../../kinds/kind.ts";
import { equalJson, textAt, without } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { missingRules, printRules, quoteAll } from "./covers.ts";
import { type PolicyRule, parseRules } from "./policy-rule.ts";
import { RBAC_GROUP } from "./rbac-index.ts";
import { isMaster } from "./rbac.ts";
import { forbiddenBecause } from "../refusal.ts";
import type { Authorizer, RoleRef } from "../authorizer.ts";
import type { AccessAttributes, User } from "../user.ts";

/** A write of a role or binding. */
export interface Grant {
  readonly kind: Pick<Kind, "group" | "resource" | "version">;
  readonly namespace: string;
  readonly user: User;
  readonly object: KubeObject;
  /** Absent: the object is new. */
  readonly oldObject: KubeObject | undefined;
}

const FULL: readonly PolicyRule[] = parseRules([
  { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
  { verbs: ["*"], nonResourceURLs: ["*"] },
]);

function may(grant: Grant, authorizer: Authorizer, wanted: Partial<AccessAttributes>): boolean {
  const { kind, namespace, user } = grant;
  const { group, version, resource } = kind;
  const asked = {
    verb: "",
    group,
    version,
    resource,
    subresource: "",
    namespace,
    name: "",
    path: "",
  };
  return authorizer.authorize(user, { ...asked, ...wanted }).allowed;
}

function refuse(grant: Grant, why: string): never {
  const { kind, object } = grant;
  throw forbiddenBecause({ ...kind, name: object.metadata.name }, why);
}

function checkHeld(grant: Grant, authorizer: Authorizer, rules: readonly PolicyRule[]): void {
  const { user, namespace } = grant;
  const held = authorizer.rulesFor(user, namespace);
  const missing = missingRules(held.rules, rules);
  if (missing.length > 0) {
    const errors =
      held.errors.length === 0 ? "" : `; resolution errors: [${held.errors.join(" ")}]`;
    refuse(
      grant,
      `user ${JSON.stringify(user.name)} (groups=${quoteAll(user.groups)}) is attempting to grant RBAC permissions not currently held:\n${printRules(missing)}${errors}`,
    );
  }
}

function checkRole(grant: Grant, authorizer: Authorizer): void {
  const { object, oldObject } = grant;
  const name = oldObject?.metadata.name ?? "";
  if (may(grant, authorizer, { verb: "escalate", name })) {
    return;
  }
  const rule = object["aggregationRule"];
  const gathers = rule !== undefined && rule !== null;
  const held = authorizer.rulesFor(grant.user, grant.namespace).rules;
  if (gathers && missingRules(held, FULL).length > 0) {
    refuse(grant, "must have cluster-admin privileges to use the aggregationRule");
  }
  checkHeld(grant, authorizer, parseRules(object["rules"]));
}

function checkBinding(grant: Grant, authorizer: Authorizer): void {
  const { object, namespace } = grant;
  const roleRef: RoleRef = {
    apiGroup: textAt(object, "roleRef", "apiGroup"),
    kind: textAt(object, "roleRef", "kind"),
    name: textAt(object, "roleRef", "name"),
  };
  const resource = roleRef.kind === "Role" ? "roles" : "clusterroles";
  const wanted = { verb: "bind", resource, group: roleRef.apiGroup, name: roleRef.name };
  if (may(grant, authorizer, wanted)) {
    return;
  }
  const rules = authorizer.rulesOf(roleRef, namespace);
  if (rules === undefined) {
    throw notFound({ group: RBAC_GROUP, resource, kind: roleRef.kind }, roleRef.name);
  }
  checkHeld(grant, authorizer, rules);
}

/** Whether only what the garbage collector needs differs: owners, finalizers, and what follows every write. */
function isSameBesideOwners(object: KubeObject, oldObject: KubeObject): boolean {
  const rest = ({ metadata, ...fields }: KubeObject) => ({
    ...fields,
    metadata: without(
      { ...metadata },
      "ownerReferences",
      "finalizers",
      "managedFields",
      "resourceVersion",
    ),
  });
  return equalJson(rest(object), rest(oldObject));
}

/** Throws a StatusError 403 where the write would give away what its user does not hold. */
export function checkEscalation(grant: Grant, authorizer: Authorizer): void {
  const { kind, user, object, oldObject } = grant;
  const unchanged = oldObject !== undefined && isSameBesideOwners(object, oldObject);
  if (kind.group !== RBAC_GROUP || isMaster(user) || unchanged) {
    return;
  }
  if (kind.resource.endsWith("bindings")) {
    checkBinding(grant, authorizer);
  } else {
    checkRole(grant, authorizer);
  }
}
