// SPDX-License-Identifier: Apache-2.0
// What is a role?
import type { KubeObject } from "@patchbay/api";

/** A rule of a role. Source: Kubernetes rbac.authorization.k8s.io/v1 PolicyRule. */
export interface Rule {
  /** With `resources`; absent where paths are named. */
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  /** Paths that are no objects'. */
  readonly nonResourceURLs?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** A Role or ClusterRole. */
export interface Role extends KubeObject {
  readonly rules: readonly Rule[];
}

/** Whether the object is a role. */
export function isRole(object: KubeObject): object is Role {
  return object.kind === "ClusterRole" || object.kind === "Role";
}
