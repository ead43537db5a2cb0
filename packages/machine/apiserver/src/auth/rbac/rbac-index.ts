// SPDX-License-Identifier: Apache-2.0
// Which roles has a subject? Kept up to date with the store, so that a request looks at its user's bindings only.
import { listOf, textAt } from "../../objects/json.ts";
import type { Change, Store, StoredObject } from "../../storage/store.ts";
import { type PolicyRule, parseRules } from "./policy-rule.ts";
import type { RoleRef } from "../authorizer.ts";
import { userOfServiceAccount } from "../service-account-name.ts";
import type { User } from "../user.ts";

/** Group of roles and bindings. */
export const RBAC_GROUP = "rbac.authorization.k8s.io";

const ROLES: readonly string[] = ["roles", "clusterroles"].map((name) => `${RBAC_GROUP}/${name}`);
const BINDINGS: readonly string[] = ["clusterrolebindings", "rolebindings"].map(
  (name) => `${RBAC_GROUP}/${name}`,
);

/** One binding and the subject in it that is meant. */
export interface Bound {
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
export class RbacIndex {
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
