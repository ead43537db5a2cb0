// SPDX-License-Identifier: Apache-2.0
// What an installation consists of, as far as somebody looks whether it is whole.
import type { KubeObject } from "./meta.ts";

/** Pods of which some are always there. Source: Kubernetes apps/v1 Deployment. */
export interface Deployment extends KubeObject {
  readonly spec?: { readonly replicas?: number };
  readonly status?: { readonly readyReplicas?: number; readonly updatedReplicas?: number };
}

/** Pods of which each node has one. Source: Kubernetes apps/v1 DaemonSet. */
export interface DaemonSet extends KubeObject {
  readonly status?: {
    readonly desiredNumberScheduled?: number;
    readonly numberReady?: number;
    readonly updatedNumberScheduled?: number;
  };
}
