// SPDX-License-Identifier: Apache-2.0
// Who asks, as the API server tells it.

/** A user as authentication has found them. Source: Kubernetes authentication.k8s.io/v1 UserInfo. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** Claims of a token by name, such as the pod that it is bound to; absent: there are none. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}
