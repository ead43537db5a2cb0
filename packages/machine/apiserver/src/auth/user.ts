// SPDX-License-Identifier: Apache-2.0
// Who asks, and whether they may.

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
  /** No role allows it: the node's pods need it. */
  readonly isByPods?: boolean;
}

/** The one place where rights are decided. */
export type Authorize = (user: User, attributes: AccessAttributes) => AccessDecision;
