// SPDX-License-Identifier: Apache-2.0
// Who asks, and whether they may.
import type { PolicyRule } from "./policy-rule.ts";

/** Group of everyone whom the server knows. */
export const AUTHENTICATED = "system:authenticated";

/** Group of everyone whom the server does not know. */
export const UNAUTHENTICATED = "system:unauthenticated";

/** A user as authentication found them. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** Tells users of one name apart, where the name was given anew. */
  readonly uid?: string;
  /** What else is known, for example the pod that a token is bound to. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Who comes without credentials. */
export const ANONYMOUS: User = { name: "system:anonymous", groups: [UNAUTHENTICATED] };

/** What someone wants to do. Source: Kubernetes authorization.Attributes. */
export interface AccessAttributes {
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  /** Set for paths that are no resources. */
  readonly path: string;
}

/** The answer, with a reason for people. */
export interface AccessDecision {
  readonly allowed: boolean;
  readonly reason: string;
}

/** Rules that apply to somebody. */
export interface HeldRules {
  readonly rules: readonly PolicyRule[];
  /** Why there may be more of them; empty where these are all. */
  readonly errors: readonly string[];
}

/** The one place where rights are decided. */
export type Authorize = (user: User, attributes: AccessAttributes) => AccessDecision;

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
