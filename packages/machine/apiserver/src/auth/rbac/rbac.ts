// SPDX-License-Identifier: Apache-2.0
// May they? By roles and bindings, and by nothing else.
import type { Store } from "../../storage/store.ts";
import { type PolicyRule, ruleAllows } from "./policy-rule.ts";
import { type Bound, RbacIndex } from "./rbac-index.ts";
import type { Authorizer, HeldRules, RoleRef } from "../authorizer.ts";
import type { AccessAttributes, AccessDecision, User } from "../user.ts";

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
