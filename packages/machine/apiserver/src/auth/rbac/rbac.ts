// SPDX-License-Identifier: Apache-2.0
// RBAC authorizer: decides by the stored roles and bindings.
import { listOf, textAt } from "../../objects/json.ts";
import type { Change, Store, StoredObject } from "../../storage/store.ts";
import {
  type AccessAttributes,
  type AccessDecision,
  type Authorizer,
  type HeldRules,
  type PolicyRule,
  type RoleRef,
  parseRules,
  ruleAllows,
} from "../authorizer.ts";
import { type User, userOfServiceAccount } from "../user.ts";

/** Group of roles and bindings. */
export const RBAC_GROUP = "rbac.authorization.k8s.io";

const ROLES: readonly string[] = ["roles", "clusterroles"].map((name) => `${RBAC_GROUP}/${name}`);
const BINDINGS: readonly string[] = ["clusterrolebindings", "rolebindings"].map(
  (name) => `${RBAC_GROUP}/${name}`,
);

/** One binding and the subject in it that is meant. */
interface Bound {
  readonly name: string;
  /** Empty for bindings of the cluster. */
  readonly namespace: string;
  readonly roleRef: RoleRef;
  /** The subject, as reasons name it. */
  readonly subject: string;
}

interface Entry extends Bound {
  readonly key: string;
}

function userKey(namespace: string, name: string): string {
  return `${namespace}/u/${name}`;
}

function groupKey(namespace: string, name: string): string {
  return `${namespace}/g/${name}`;
}

function keyOf(subject: unknown, namespace: string): string {
  const name = textAt(subject, "name");
  switch (textAt(subject, "kind")) {
    case "User":
      return userKey(namespace, name);
    case "Group":
      return groupKey(namespace, name);
    default: {
      const home = textAt(subject, "namespace") || namespace;
      return userKey(namespace, userOfServiceAccount({ namespace: home, name }));
    }
  }
}

function printSubject(subject: unknown, namespace: string): string {
  const kind = textAt(subject, "kind");
  const name = textAt(subject, "name");
  const home = textAt(subject, "namespace") || namespace;
  return kind === "ServiceAccount" ? `${kind} "${name}/${home}"` : `${kind} "${name}"`;
}

function entriesOf(stored: StoredObject): readonly Entry[] {
  const binding = stored.view();
  const { namespace, name } = stored.address;
  const roleRef = {
    apiGroup: textAt(binding, "roleRef", "apiGroup"),
    kind: textAt(binding, "roleRef", "kind"),
    name: textAt(binding, "roleRef", "name"),
  };
  return listOf(binding["subjects"]).map((subject) => ({
    name,
    namespace,
    roleRef,
    subject: printSubject(subject, namespace),
    key: keyOf(subject, namespace),
  }));
}

/** Roles by name, bindings by subject. */
class RbacIndex {
  /** By `<namespace>/<name>`; the namespace is empty for roles of the cluster. */
  readonly #roles = new Map<string, readonly PolicyRule[]>();
  /** By scope and subject, then by binding. */
  readonly #bound = new Map<string, Map<string, Entry>>();
  #generation = 0;

  constructor(store: Pick<Store, "list" | "subscribe">) {
    for (const bucket of [...ROLES, ...BINDINGS]) {
      for (const stored of store.list({ bucket })) {
        this.#add(stored);
      }
    }
    store.subscribe((changes) => {
      changes.forEach((change) => {
        this.#follow(change);
      });
    });
  }

  /** Rises with every change of a role or binding. */
  get generation(): number {
    return this.#generation;
  }

  /** Rules of a role; undefined where there is none. */
  rulesOf(roleRef: RoleRef, namespace: string): readonly PolicyRule[] | undefined {
    const home = roleRef.kind === "Role" ? namespace : "";
    return this.#roles.get(`${home}/${roleRef.name}`);
  }

  /** Bindings in a namespace (empty: of the cluster) that name the user or a group of theirs, by name. */
  boundTo(user: User, namespace: string): readonly Bound[] {
    const keys = [
      userKey(namespace, user.name),
      ...user.groups.map((group) => groupKey(namespace, group)),
    ];
    const found = keys.flatMap((key) => [...(this.#bound.get(key)?.values() ?? [])]);
    return found.sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  #follow({ type, current, previous }: Change): void {
    const { bucket } = current.address;
    if (!ROLES.includes(bucket) && !BINDINGS.includes(bucket)) {
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
    if (ROLES.includes(bucket)) {
      this.#roles.set(`${namespace}/${name}`, parseRules(stored.view()["rules"]));
      return;
    }
    for (const entry of entriesOf(stored)) {
      const known = this.#bound.get(entry.key) ?? new Map<string, Entry>();
      this.#bound.set(entry.key, known.set(name, entry));
    }
  }

  #remove(stored: StoredObject): void {
    const { bucket, namespace, name } = stored.address;
    if (ROLES.includes(bucket)) {
      this.#roles.delete(`${namespace}/${name}`);
      return;
    }
    for (const { key } of entriesOf(stored)) {
      const known = this.#bound.get(key);
      known?.delete(name);
      if (known?.size === 0) {
        this.#bound.delete(key);
      }
    }
  }
}

/** Members may do everything, whatever the roles say. */
const MASTERS = "system:masters";

/** Users, and namespaces of each, that are remembered between changes of roles; beyond that it begins anew. */
const REMEMBERED_MAX = 1000;

const YES: AccessDecision = { allowed: true, reason: "" };
const NO: AccessDecision = { allowed: false, reason: "" };

interface Grant {
  readonly bound: Bound;
  /** Undefined: there is no such role. */
  readonly rules: readonly PolicyRule[] | undefined;
}

type Grants = readonly Grant[];

function printBound({ name, namespace, roleRef, subject }: Bound): string {
  const what =
    namespace === "" ? `ClusterRoleBinding "${name}"` : `RoleBinding "${name}/${namespace}"`;
  return `${what} of ${roleRef.kind} "${roleRef.name}" to ${subject}`;
}

function missingRole({ roleRef }: Bound): string {
  return `${roleRef.kind.toLowerCase()}.rbac.authorization.k8s.io "${roleRef.name}" not found`;
}

/** Several errors as Kubernetes joins them: each once. */
function joinErrors(errors: readonly string[]): string {
  const distinct = [...new Set(errors)];
  return distinct.length === 1 ? (distinct[0] ?? "") : `[${distinct.join(", ")}]`;
}

function errorsOf(grants: Grants): readonly string[] {
  return grants.flatMap(({ bound, rules }) => (rules === undefined ? [missingRole(bound)] : []));
}

/** Whether the user may do everything. */
export function isMaster(user: User): boolean {
  return user.groups.includes(MASTERS);
}

class Rbac implements Authorizer {
  readonly #index: RbacIndex;
  readonly #known = new Map<string, Map<string, Grants>>();
  #generation = 0;

  constructor(store: Pick<Store, "list" | "subscribe">) {
    this.#index = new RbacIndex(store);
  }

  readonly authorize = (user: User, attributes: AccessAttributes): AccessDecision => {
    if (isMaster(user)) {
      return YES;
    }
    const grants = this.#grantsOf(user, attributes.path === "" ? attributes.namespace : "");
    const grant = grants.find(
      ({ rules }) => rules?.some((rule) => ruleAllows(rule, attributes)) === true,
    );
    if (grant !== undefined) {
      return { allowed: true, reason: `RBAC: allowed by ${printBound(grant.bound)}` };
    }
    const errors = errorsOf(grants);
    return errors.length === 0 ? NO : { allowed: false, reason: `RBAC: ${joinErrors(errors)}` };
  };

  rulesFor(user: User, namespace: string): HeldRules {
    const grants = this.#grantsOf(user, namespace);
    return { rules: grants.flatMap(({ rules }) => rules ?? []), errors: errorsOf(grants) };
  }

  rulesOf(roleRef: RoleRef, namespace: string): readonly PolicyRule[] | undefined {
    return this.#index.rulesOf(roleRef, namespace);
  }

  /** What the user is given in a namespace; first what is given everywhere. */
  #grantsOf(user: User, namespace: string): Grants {
    const byNamespace = this.#grantsByNamespace(user);
    const known = byNamespace.get(namespace);
    if (known !== undefined) {
      return known;
    }
    if (byNamespace.size > REMEMBERED_MAX) {
      byNamespace.clear();
    }
    const bound = [
      ...this.#index.boundTo(user, ""),
      ...(namespace === "" ? [] : this.#index.boundTo(user, namespace)),
    ];
    const grants = bound.map((one) => ({
      bound: one,
      rules: this.#index.rulesOf(one.roleRef, one.namespace),
    }));
    byNamespace.set(namespace, grants);
    return grants;
  }

  #grantsByNamespace(user: User): Map<string, Grants> {
    if (this.#generation !== this.#index.generation || this.#known.size > REMEMBERED_MAX) {
      this.#known.clear();
      this.#generation = this.#index.generation;
    }
    const key = JSON.stringify([user.name, user.groups]);
    const known = this.#known.get(key) ?? new Map<string, Grants>();
    this.#known.set(key, known);
    return known;
  }
}

/** Decides by the roles and bindings in the store. What a commit changed counts from the next request on. */
export function makeRbac(store: Pick<Store, "list" | "subscribe">): Authorizer {
  return new Rbac(store);
}
