// SPDX-License-Identifier: Apache-2.0
// Who decides about rights, and what can be asked.
import type { PolicyRule } from "./rbac/policy-rule.ts";
import type { Authorize, User } from "./user.ts";

/** Rules that apply to somebody. */
export interface HeldRules {
  readonly rules: readonly PolicyRule[];
  /** Why there may be more of them; empty where these are all. */
  readonly errors: readonly string[];
}

/** Who may do what, and why. */
export interface Authorizer {
  readonly authorize: Authorize;
  /** All rules that apply to the user in a namespace; in the empty one, those that apply everywhere. */
  rulesFor(user: User, namespace: string): HeldRules;
  /** Rules of the role that a binding in the namespace names; undefined where there is no such role. */
  rulesOf(roleRef: RoleRef, namespace: string): readonly PolicyRule[] | undefined;
}

/** Which role a binding gives. Source: rbac/v1 RoleRef. */
export interface RoleRef {
  readonly apiGroup: string;
  readonly kind: string;
  readonly name: string;
}
