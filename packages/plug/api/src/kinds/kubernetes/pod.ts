// SPDX-License-Identifier: Apache-2.0
// The part of a pod that Patchbay writes and reads. Source: Kubernetes core/v1 Pod.
import type { Container, ContainerStatus, SeccompProfile } from "./container.ts";
import type { Condition, KubeObject } from "./meta.ts";
import type { PodVolume } from "./pod-volume.ts";

/** Which taints do not keep a pod away; what is left out fits every one. Source: Kubernetes core/v1 Toleration. */
export interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly value?: string;
  readonly effect?: string;
  readonly tolerationSeconds?: number;
}

/** A pod; launchers are the ones that Patchbay makes. */
export interface Pod extends KubeObject {
  readonly spec: {
    readonly nodeName?: string;
    readonly serviceAccountName?: string;
    readonly hostNetwork?: boolean;
    readonly hostPID?: boolean;
    readonly hostIPC?: boolean;
    readonly shareProcessNamespace?: boolean;
    readonly restartPolicy?: "Always" | "OnFailure" | "Never";
    readonly terminationGracePeriodSeconds?: number;
    readonly automountServiceAccountToken?: boolean;
    readonly imagePullSecrets?: readonly { readonly name?: string }[];
    readonly enableServiceLinks?: boolean;
    readonly hostname?: string;
    readonly subdomain?: string;
    readonly dnsPolicy?: string;
    readonly dnsConfig?: {
      readonly nameservers?: readonly string[];
      readonly searches?: readonly string[];
      readonly options?: readonly { readonly name?: string; readonly value?: string }[];
    };
    readonly nodeSelector?: Readonly<Record<string, string>>;
    readonly affinity?: object;
    readonly tolerations?: readonly Toleration[];
    readonly topologySpreadConstraints?: readonly object[];
    readonly priorityClassName?: string;
    readonly schedulerName?: string;
    readonly securityContext?: {
      readonly runAsUser?: number;
      readonly runAsGroup?: number;
      readonly fsGroup?: number;
      readonly runAsNonRoot?: boolean;
      readonly supplementalGroups?: readonly number[];
      readonly seccompProfile?: SeccompProfile;
      readonly sysctls?: readonly { readonly name: string; readonly value: string }[];
    };
    readonly initContainers?: readonly Container[];
    readonly containers: readonly Container[];
    readonly volumes?: readonly PodVolume[];
  };
  readonly status?: {
    readonly phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
    readonly reason?: string;
    readonly message?: string;
    readonly podIP?: string;
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly hostIP?: string;
    readonly startTime?: string;
    readonly conditions?: readonly Condition[];
    readonly qosClass?: "Guaranteed" | "Burstable" | "BestEffort";
    readonly initContainerStatuses?: readonly ContainerStatus[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

/** Whether no process of the pod runs any more, for ever. */
export function isPodFinished(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}
