// SPDX-License-Identifier: Apache-2.0
// The parts of Kubernetes' own kinds that Patchbay reads or writes. Sources: Kubernetes core/v1, apps/v1,
// coordination.k8s.io/v1, apiregistration.k8s.io/v1, admissionregistration.k8s.io/v1.
import type { Condition, KubeObject } from "./meta.ts";
import type { LabelSelector } from "./network-policy.ts";

export interface NodeCondition extends Condition {
  /** Time in RFC 3339. */
  readonly lastHeartbeatTime?: string;
}

/** Data about a node. Kubernetes requires all fields. Source: Kubernetes core/v1 NodeSystemInfo. */
interface NodeSystemInfo {
  readonly machineID: string;
  readonly systemUUID: string;
  readonly bootID: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  readonly containerRuntimeVersion: string;
  readonly kubeletVersion: string;
  /** Deprecated in Kubernetes. Patchbay writes an empty string. */
  readonly kubeProxyVersion: string;
  readonly operatingSystem: string;
  /** Architecture by its GOARCH name, for example `amd64`. */
  readonly architecture: string;
}

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
}

export interface KubeNode extends KubeObject {
  readonly spec?: {
    /** True if the node accepts no new pods, for example after `kubectl cordon`. */
    readonly unschedulable?: boolean;
    readonly taints?: readonly Taint[];
  };
  readonly status?: {
    readonly conditions?: readonly NodeCondition[];
    readonly allocatable?: Readonly<Record<string, string>>;
    readonly capacity?: Readonly<Record<string, string>>;
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
    readonly nodeInfo?: NodeSystemInfo;
    readonly images?: readonly { readonly names?: readonly string[] }[] | null;
    readonly daemonEndpoints?: { readonly kubeletEndpoint?: { readonly Port: number } };
  };
}

export interface Namespace extends KubeObject {
  readonly status?: { readonly phase?: "Active" | "Terminating" };
}

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

export interface Lease extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly renewTime?: string;
    readonly acquireTime?: string;
    readonly leaseTransitions?: number;
  };
}

export interface ApiService extends KubeObject {
  readonly spec: {
    readonly group: string;
    readonly version: string;
    /** PEM certificates in base64. */
    readonly caBundle?: string;
    /** Unset if the API server serves the group itself. */
    readonly service?: {
      readonly namespace: string;
      readonly name: string;
      readonly port?: number;
    };
  };
  /** Conditions that the API server writes, for example Available. */
  readonly status?: { readonly conditions?: readonly Condition[] };
}

export interface WebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly {
    readonly name: string;
    readonly clientConfig: {
      /** PEM certificates in base64. */
      readonly caBundle?: string;
      readonly service?: { readonly namespace: string; readonly name: string };
    };
    readonly failurePolicy?: string;
    readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[];
    readonly namespaceSelector?: LabelSelector;
    readonly objectSelector?: LabelSelector;
    readonly rules?: readonly {
      readonly apiGroups?: readonly string[];
      readonly operations?: readonly string[];
      readonly resources?: readonly string[];
      readonly scope?: string;
    }[];
  }[];
}

export interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
  /** Values in base64. */
  readonly binaryData?: Readonly<Record<string, string>>;
}

export interface Secret extends KubeObject {
  /** Values in base64. */
  readonly data?: Readonly<Record<string, string>>;
  readonly type?: string;
}

/** Immutable snapshot of an object. Patchbay stores snapshots of instancetypes and preferences; their labels contain the object's kind. */
export interface ControllerRevision extends KubeObject {
  readonly data?: unknown;
  readonly revision: number;
}

export interface Deployment extends KubeObject {
  readonly spec?: { readonly replicas?: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
  };
}

export interface DaemonSet extends KubeObject {
  readonly status?: {
    readonly observedGeneration?: number;
    readonly desiredNumberScheduled?: number;
    readonly numberReady?: number;
    readonly updatedNumberScheduled?: number;
  };
}
