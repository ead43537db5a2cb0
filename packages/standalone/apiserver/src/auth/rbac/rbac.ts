// SPDX-License-Identifier: Apache-2.0
import { asList, textAt } from "../../objects/json.ts";
import type { Change, Store, StoredObject } from "../../storage/store.ts";
import {
  type AccessAttributes,
  type AccessDecision,
  type Authorizer,
  type UserRules,
  type PolicyRule,
  type RoleRef,
  parseRules,
  ruleAllows,
} from "../authorizer.ts";
import { type User, serviceAccountUser } from "../user.ts";

export const RBAC_GROUP = "rbac.authorization.k8s.io";

const ROLE_BUCKETS: readonly string[] = ["roles", "clusterroles"].map(
  (name) => `${RBAC_GROUP}/${name}`,
);
const BINDING_BUCKETS: readonly string[] = ["clusterrolebindings", "rolebindings"].map(
  (name) => `${RBAC_GROUP}/${name}`,
);

interface BoundRole {
  readonly name: string;
  /** Namespace of the RoleBinding; empty for a ClusterRoleBinding. */
  readonly namespace: string;
  readonly roleRef: RoleRef;
  readonly subject: string;
}

interface IndexEntry extends BoundRole {
  readonly key: string;
}

function userKey(namespace: string, name: string): string {
  return `${namespace}/u/${name}`;
}

function groupKey(namespace: string, name: string): string {
  return `${namespace}/g/${name}`;
}

function subjectKey(subject: unknown, namespace: string): string {
  const name = textAt(subject, "name");
  switch (textAt(subject, "kind")) {
    case "User":
      return userKey(namespace, name);
    case "Group":
      return groupKey(namespace, name);
    default: {
      const accountNamespace = textAt(subject, "namespace") || namespace;
      return userKey(namespace, serviceAccountUser({ namespace: accountNamespace, name }));
    }
  }
}

function printSubject(subject: unknown, namespace: string): string {
  const kind = textAt(subject, "kind");
  const name = textAt(subject, "name");
  const accountNamespace = textAt(subject, "namespace") || namespace;
  return kind === "ServiceAccount" ? `${kind} "${name}/${accountNamespace}"` : `${kind} "${name}"`;
}

function toEntries(stored: StoredObject): readonly IndexEntry[] {
  const binding = stored.view();
  const { namespace, name } = stored.address;
  const roleRef = {
    apiGroup: textAt(binding, "roleRef", "apiGroup"),
    kind: textAt(binding, "roleRef", "kind"),
    name: textAt(binding, "roleRef", "name"),
  };
  return asList(binding["subjects"]).map((subject) => ({
    name,
    namespace,
    roleRef,
    subject: printSubject(subject, namespace),
    key: subjectKey(subject, namespace),
  }));
}

/** Index of roles and bindings, so that a request reads only the bindings of its user. Updated on each change. */
class RbacIndex {
  readonly #roles = new Map<string, readonly PolicyRule[]>();
  readonly #bindings = new Map<string, Map<string, IndexEntry>>();
  #generation = 0;

  constructor(store: Pick<Store, "list" | "subscribe">) {
    for (const bucket of [...ROLE_BUCKETS, ...BINDING_BUCKETS]) {
      for (const stored of store.list({ bucket })) {
        this.#add(stored);
      }
    }
    store.subscribe((changes) => {
      changes.forEach((change) => {
        this.#apply(change);
      });
    });
  }

  /** Number that increases with each change of a role or binding. */
  get generation(): number {
    return this.#generation;
  }

  listRoleRules(roleRef: RoleRef, namespace: string): readonly PolicyRule[] | undefined {
    const roleNamespace = roleRef.kind === "Role" ? namespace : "";
    return this.#roles.get(`${roleNamespace}/${roleRef.name}`);
  }

  /** Returns the user's roles, sorted by binding name. An empty namespace selects ClusterRoleBindings. */
  listBoundRoles(user: User, namespace: string): readonly BoundRole[] {
    const keys = [
      userKey(namespace, user.name),
      ...user.groups.map((group) => groupKey(namespace, group)),
    ];
    const entries = keys.flatMap((key) => [...(this.#bindings.get(key)?.values() ?? [])]);
    return entries.sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  #apply({ type, current, previous }: Change): void {
    const { bucket } = current.address;
    if (!ROLE_BUCKETS.includes(bucket) && !BINDING_BUCKETS.includes(bucket)) {
      return;
    }
    if (previous !== undefined) {
      this.#remove(previous);
    }
    if (type !== "DELETED") {
      this.#add(current);
    }
    this.#generation += 1;
  }

  #add(stored: StoredObject): void {
    const { bucket, namespace, name } = stored.address;
    if (ROLE_BUCKETS.includes(bucket)) {
      this.#roles.set(`${namespace}/${name}`, parseRules(stored.view()["rules"]));
      return;
    }
    for (const entry of toEntries(stored)) {
      const entries = this.#bindings.get(entry.key) ?? new Map<string, IndexEntry>();
      this.#bindings.set(entry.key, entries.set(name, entry));
    }
  }

  #remove(stored: StoredObject): void {
    const { bucket, namespace, name } = stored.address;
    if (ROLE_BUCKETS.includes(bucket)) {
      this.#roles.delete(`${namespace}/${name}`);
      return;
    }
    for (const { key } of toEntries(stored)) {
      const entries = this.#bindings.get(key);
      entries?.delete(name);
      if (entries?.size === 0) {
        this.#bindings.delete(key);
      }
    }
  }
}

/** Group whose members have all rights, regardless of roles. */
const MASTERS_GROUP = "system:masters";

/** Maximum number of cached users, and of cached namespaces for each user. A full cache is cleared. */
const CACHE_ENTRIES_MAX = 1000;

const ALLOWED: AccessDecision = { allowed: true, reason: "" };
const DENIED: AccessDecision = { allowed: false, reason: "" };

interface Grant {
  readonly boundRole: BoundRole;
  /** Rules of the role; undefined if the role does not exist. */
  readonly rules: readonly PolicyRule[] | undefined;
}

type Grants = readonly Grant[];

function printBinding({ name, namespace, roleRef, subject }: BoundRole): string {
  const binding =
    namespace === "" ? `ClusterRoleBinding "${name}"` : `RoleBinding "${name}/${namespace}"`;
  return `${binding} of ${roleRef.kind} "${roleRef.name}" to ${subject}`;
}

function missingRoleMessage({ roleRef }: BoundRole): string {
  return `${roleRef.kind.toLowerCase()}.rbac.authorization.k8s.io "${roleRef.name}" not found`;
}

function joinErrors(errors: readonly string[]): string {
  const distinctErrors = [...new Set(errors)];
  return distinctErrors.length === 1 ? (distinctErrors[0] ?? "") : `[${distinctErrors.join(", ")}]`;
}

function missingRoleMessages(grants: Grants): readonly string[] {
  return grants.flatMap(({ boundRole, rules }) =>
    rules === undefined ? [missingRoleMessage(boundRole)] : [],
  );
}

export function isSystemMaster(user: User): boolean {
  return user.groups.includes(MASTERS_GROUP);
}

class Rbac implements Authorizer {
  readonly #index: RbacIndex;
  readonly #grantCache = new Map<string, Map<string, Grants>>();
  #generation = 0;

  constructor(store: Pick<Store, "list" | "subscribe">) {
    this.#index = new RbacIndex(store);
  }

  readonly authorize = (user: User, attributes: AccessAttributes): AccessDecision => {
    if (isSystemMaster(user)) {
      return ALLOWED;
    }
    const grants = this.#grantsOf(user, attributes.path === "" ? attributes.namespace : "");
    const grant = grants.find(
      ({ rules }) => rules?.some((rule) => ruleAllows(rule, attributes)) === true,
    );
    if (grant !== undefined) {
      return { allowed: true, reason: `RBAC: allowed by ${printBinding(grant.boundRole)}` };
    }
    const errors = missingRoleMessages(grants);
    return errors.length === 0 ? DENIED : { allowed: false, reason: `RBAC: ${joinErrors(errors)}` };
  };

  listUserRules(user: User, namespace: string): UserRules {
    const grants = this.#grantsOf(user, namespace);
    return {
      rules: grants.flatMap(({ rules }) => rules ?? []),
      errors: missingRoleMessages(grants),
    };
  }

  listRoleRules(roleRef: RoleRef, namespace: string): readonly PolicyRule[] | undefined {
    return this.#index.listRoleRules(roleRef, namespace);
  }

  #grantsOf(user: User, namespace: string): Grants {
    const byNamespace = this.#grantsByNamespace(user);
    const cachedGrants = byNamespace.get(namespace);
    if (cachedGrants !== undefined) {
      return cachedGrants;
    }
    if (byNamespace.size > CACHE_ENTRIES_MAX) {
      byNamespace.clear();
    }
    const boundRoles = [
      ...this.#index.listBoundRoles(user, ""),
      ...(namespace === "" ? [] : this.#index.listBoundRoles(user, namespace)),
    ];
    const grants = boundRoles.map((boundRole) => ({
      boundRole,
      rules: this.#index.listRoleRules(boundRole.roleRef, boundRole.namespace),
    }));
    byNamespace.set(namespace, grants);
    return grants;
  }

  #grantsByNamespace(user: User): Map<string, Grants> {
    if (this.#generation !== this.#index.generation || this.#grantCache.size > CACHE_ENTRIES_MAX) {
      this.#grantCache.clear();
      this.#generation = this.#index.generation;
    }
    const key = JSON.stringify([user.name, user.groups]);
    const grantsByNamespace = this.#grantCache.get(key) ?? new Map<string, Grants>();
    this.#grantCache.set(key, grantsByNamespace);
    return grantsByNamespace;
  }
}

export function makeRbac(store: Pick<Store, "list" | "subscribe">): Authorizer {
  return new Rbac(store);
}
