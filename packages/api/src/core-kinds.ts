// SPDX-License-Identifier: Apache-2.0
// The parts of Kubernetes' own kinds that Patchbay reads or writes.
import type { Condition, KubeObject } from "./meta.ts";

/** A node. Source: Kubernetes core/v1 Node. */
export interface KubeNode extends KubeObject {
  readonly status?: {
    readonly conditions?: readonly Condition[];
    readonly allocatable?: Readonly<Record<string, string>>;
    readonly capacity?: Readonly<Record<string, string>>;
  };
}

/** A namespace. Source: Kubernetes core/v1 Namespace. */
export interface Namespace extends KubeObject {
  readonly status?: { readonly phase?: "Active" | "Terminating" };
}

/** An event. Source: Kubernetes core/v1 Event. */
export interface KubeEvent extends KubeObject {
  readonly involvedObject: {
    readonly apiVersion?: string;
    readonly kind?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly uid?: string;
  };
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  readonly count?: number;
  readonly firstTimestamp?: string;
  readonly lastTimestamp?: string;
  readonly source?: { readonly component?: string; readonly host?: string };
}

/** A lease. Source: Kubernetes coordination.k8s.io/v1 Lease. */
export interface Lease extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly renewTime?: string;
  };
}
