// SPDX-License-Identifier: Apache-2.0
// Who asks, and whether they may.

/** A user as authentication found them. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
}

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

/** The one place where rights are decided. */
export type Authorize = (user: User, attributes: AccessAttributes) => AccessDecision;

/** Lets every authenticated user pass. */
export const allowAuthenticated: Authorize = (user) => ({
  allowed: user.groups.includes("system:authenticated"),
  reason: "",
});
