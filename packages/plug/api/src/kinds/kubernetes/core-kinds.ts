// SPDX-License-Identifier: Apache-2.0
// The parts of Kubernetes' own kinds that Patchbay reads or writes.
import type { Condition, KubeObject } from "./meta.ts";

/** A condition of a node, which is told again while it stays the same. */
export interface NodeCondition extends Condition {
  /** RFC 3339. */
  readonly lastHeartbeatTime?: string;
}

/** What a node is. Source: Kubernetes core/v1 NodeSystemInfo; all members are required. */
interface NodeSystemInfo {
  readonly machineID: string;
  readonly systemUUID: string;
  readonly bootID: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  readonly containerRuntimeVersion: string;
  readonly kubeletVersion: string;
  /** Empty: nobody sets it any more. */
  readonly kubeProxyVersion: string;
  readonly operatingSystem: string;
  /** As Go names it, for example `amd64`. */
  readonly architecture: string;
}

/** What keeps pods from a node that do not tolerate it. Source: Kubernetes core/v1 Taint. */
export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
}

/** A node. Source: Kubernetes core/v1 Node. */
export interface KubeNode extends KubeObject {
  readonly spec?: {
    /** What `kubectl cordon` sets: new pods are not wanted. */
    readonly unschedulable?: boolean;
    readonly taints?: readonly Taint[];
  };
  readonly status?: {
    readonly conditions?: readonly NodeCondition[];
    readonly allocatable?: Readonly<Record<string, string>>;
    readonly capacity?: Readonly<Record<string, string>>;
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
    readonly nodeInfo?: NodeSystemInfo;
    readonly daemonEndpoints?: { readonly kubeletEndpoint?: { readonly Port: number } };
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
    readonly acquireTime?: string;
    /** How often the holder was another one than before. */
    readonly leaseTransitions?: number;
  };
}

/** An API group and version that another server than the API server's own answers. Source: Kubernetes apiregistration.k8s.io/v1 APIService. */
export interface ApiService extends KubeObject {
  readonly spec: {
    readonly group: string;
    readonly version: string;
    /** PEM in base64. */
    readonly caBundle?: string;
    /** Absent: the API server answers itself. */
    readonly service?: {
      readonly namespace: string;
      readonly name: string;
      readonly port?: number;
    };
  };
  /** Whether its server answers; writer: the API server. */
  readonly status?: { readonly conditions?: readonly Condition[] };
}

/** Webhooks that are asked at admission. Source: Kubernetes admissionregistration.k8s.io/v1. */
export interface WebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly {
    readonly name: string;
    readonly clientConfig: {
      /** PEM in base64. */
      readonly caBundle?: string;
    };
    readonly rules?: readonly { readonly apiGroups?: readonly string[] }[];
  }[];
}

// Source: Kubernetes core/v1 ConfigMap, Secret.

/** Configuration in the open. */
export interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
  /** Base64. */
  readonly binaryData?: Readonly<Record<string, string>>;
}

/** Configuration that not everybody may read. */
export interface Secret extends KubeObject {
  /** Base64. */
  readonly data?: Readonly<Record<string, string>>;
  readonly type?: string;
}

// Source: Kubernetes apps/v1.

/** Immutable; what `data` is, its labels tell. */
export interface ControllerRevision extends KubeObject {
  readonly data?: unknown;
  readonly revision: number;
}

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
