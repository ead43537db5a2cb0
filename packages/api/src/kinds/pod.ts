// SPDX-License-Identifier: Apache-2.0
// The part of a pod that Patchbay writes and reads. Source: Kubernetes core/v1 Pod.
import type { Condition, KubeObject } from "./meta.ts";

/** A volume: an empty directory or the files of an image. */
export interface PodVolume {
  readonly name: string;
  readonly emptyDir?: { readonly medium?: "" | "Memory"; readonly sizeLimit?: string };
  /** Files of an OCI image, read-only. Source: Kubernetes KEP-4639 "image volume source". */
  readonly image?: {
    readonly reference: string;
    readonly pullPolicy?: "Always" | "Never" | "IfNotPresent";
  };
}

/** What runs in a pod: the image, its process, and what that may do. */
export interface Container {
  readonly name: string;
  readonly image: string;
  readonly imagePullPolicy?: "Always" | "Never" | "IfNotPresent";
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string>>;
    readonly limits?: Readonly<Record<string, string>>;
  };
  readonly securityContext?: {
    readonly runAsUser?: number;
    readonly runAsGroup?: number;
    readonly runAsNonRoot?: boolean;
    readonly allowPrivilegeEscalation?: boolean;
    readonly capabilities?: { readonly drop?: readonly string[]; readonly add?: readonly string[] };
  };
  readonly volumeMounts?: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
  }[];
}

/** State of a container as the runtime reports it. */
export interface ContainerStatus {
  readonly name: string;
  readonly image: string;
  readonly imageID: string;
  readonly ready: boolean;
  readonly restartCount: number;
  readonly containerID?: string;
  readonly state: {
    readonly waiting?: { readonly reason: string; readonly message?: string };
    readonly running?: { readonly startedAt: string };
    readonly terminated?: {
      readonly exitCode: number;
      readonly reason?: string;
      readonly finishedAt?: string;
    };
  };
}

/** A pod; launchers are the ones that Patchbay makes. */
export interface Pod extends KubeObject {
  readonly spec: {
    readonly nodeName?: string;
    readonly hostNetwork?: boolean;
    readonly restartPolicy?: "Always" | "OnFailure" | "Never";
    readonly terminationGracePeriodSeconds?: number;
    readonly automountServiceAccountToken?: boolean;
    readonly enableServiceLinks?: boolean;
    readonly hostname?: string;
    readonly nodeSelector?: Readonly<Record<string, string>>;
    readonly securityContext?: {
      readonly runAsUser?: number;
      readonly runAsGroup?: number;
      readonly fsGroup?: number;
      readonly runAsNonRoot?: boolean;
    };
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
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

/** Whether no process of the pod runs any more, for ever. */
export function isPodFinished(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}
