// SPDX-License-Identifier: Apache-2.0
// The parts of a pod that Patchbay writes and reads. Source: Kubernetes core/v1 Pod, Container, Volume.
import type { Condition, KubeObject } from "./meta.ts";

export interface KeyToPath {
  readonly key: string;
  /** Relative path without `..`. */
  readonly path: string;
  readonly mode?: number;
}

interface ObjectFieldSelector {
  readonly apiVersion?: string;
  readonly fieldPath: string;
}

export interface ResourceFieldSelector {
  readonly containerName?: string;
  readonly resource: string;
  readonly divisor?: string;
}

export interface DownwardFile {
  readonly path: string;
  readonly mode?: number;
  readonly fieldRef?: ObjectFieldSelector;
  readonly resourceFieldRef?: ResourceFieldSelector;
}

export interface VolumeProjection {
  readonly configMap?: {
    readonly name?: string;
    readonly items?: readonly KeyToPath[];
    readonly optional?: boolean;
  };
  readonly secret?: {
    readonly name?: string;
    readonly items?: readonly KeyToPath[];
    readonly optional?: boolean;
  };
  readonly downwardAPI?: { readonly items?: readonly DownwardFile[] };
  readonly serviceAccountToken?: {
    readonly audience?: string;
    readonly expirationSeconds?: number;
    readonly path: string;
  };
}

/** Volume of a pod. Exactly one field is set besides `name`. */
export interface PodVolume {
  readonly name: string;
  readonly emptyDir?: { readonly medium?: string; readonly sizeLimit?: string };
  /** Read-only files of an OCI image. Source: Kubernetes KEP-4639 "image volume source". */
  readonly image?: {
    readonly reference: string;
    readonly pullPolicy?: "Always" | "Never" | "IfNotPresent";
  };
  readonly configMap?: {
    readonly name?: string;
    readonly items?: readonly KeyToPath[];
    readonly defaultMode?: number;
    readonly optional?: boolean;
  };
  readonly secret?: {
    readonly secretName?: string;
    readonly items?: readonly KeyToPath[];
    readonly defaultMode?: number;
    readonly optional?: boolean;
  };
  readonly downwardAPI?: {
    readonly items?: readonly DownwardFile[];
    readonly defaultMode?: number;
  };
  readonly projected?: {
    readonly sources?: readonly VolumeProjection[];
    readonly defaultMode?: number;
  };
  readonly persistentVolumeClaim?: { readonly claimName: string; readonly readOnly?: boolean };
  readonly hostPath?: { readonly path: string; readonly type?: string };
}

interface KeySelector {
  readonly name?: string;
  readonly key: string;
  readonly optional?: boolean;
}

export interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly fieldRef?: ObjectFieldSelector;
    readonly resourceFieldRef?: ResourceFieldSelector;
    readonly configMapKeyRef?: KeySelector;
    readonly secretKeyRef?: KeySelector;
  };
}

export interface EnvFromSource {
  readonly prefix?: string;
  readonly configMapRef?: { readonly name?: string; readonly optional?: boolean };
  readonly secretRef?: { readonly name?: string; readonly optional?: boolean };
}

/** Filter for system calls. Source: Kubernetes core/v1 SeccompProfile. */
interface SeccompProfile {
  readonly type: "RuntimeDefault" | "Unconfined" | "Localhost";
  readonly localhostProfile?: string;
}

/** Security settings of a container. For an unset field, the value in the pod's security context applies, if that context has the field. */
export interface SecurityContext {
  readonly privileged?: boolean;
  readonly runAsUser?: number;
  readonly runAsGroup?: number;
  readonly runAsNonRoot?: boolean;
  readonly readOnlyRootFilesystem?: boolean;
  readonly allowPrivilegeEscalation?: boolean;
  readonly procMount?: string;
  readonly seccompProfile?: SeccompProfile;
  readonly capabilities?: { readonly drop?: readonly string[]; readonly add?: readonly string[] };
}

export interface VolumeMount {
  readonly name: string;
  readonly mountPath: string;
  readonly subPath?: string;
  readonly subPathExpr?: string;
  readonly readOnly?: boolean;
  readonly mountPropagation?: "None" | "HostToContainer" | "Bidirectional";
}

/** Probe of a container. Exactly one handler is set. Times are in seconds. */
export interface Probe {
  readonly exec?: { readonly command?: readonly string[] };
  readonly tcpSocket?: { readonly port: number | string; readonly host?: string };
  readonly httpGet?: {
    readonly path?: string;
    readonly port: number | string;
    readonly host?: string;
    readonly scheme?: "HTTP" | "HTTPS";
    readonly httpHeaders?: readonly { readonly name: string; readonly value: string }[];
  };
  readonly grpc?: { readonly port: number; readonly service?: string };
  readonly initialDelaySeconds?: number;
  readonly timeoutSeconds?: number;
  readonly periodSeconds?: number;
  readonly successThreshold?: number;
  readonly failureThreshold?: number;
  readonly terminationGracePeriodSeconds?: number;
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly imagePullPolicy?: "Always" | "Never" | "IfNotPresent";
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly workingDir?: string;
  readonly env?: readonly EnvVar[];
  readonly envFrom?: readonly EnvFromSource[];
  readonly ports?: readonly {
    readonly name?: string;
    readonly containerPort: number;
    readonly hostPort?: number;
    readonly protocol?: string;
  }[];
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string>>;
    readonly limits?: Readonly<Record<string, string>>;
    /** Names of the pod's resource claims whose devices the container uses. */
    readonly claims?: readonly { readonly name: string; readonly request?: string }[];
  };
  readonly securityContext?: SecurityContext;
  readonly volumeMounts?: readonly VolumeMount[];
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly startupProbe?: Probe;
  /** Hooks of the container's lifecycle. Source: Kubernetes core/v1 Lifecycle. */
  readonly lifecycle?: { readonly postStart?: object; readonly preStop?: object };
  /** `Always` makes an init container a sidecar. */
  readonly restartPolicy?: string;
  readonly volumeDevices?: readonly { readonly name: string; readonly devicePath: string }[];
  readonly terminationMessagePolicy?: "File" | "FallbackToLogsOnError";
  readonly stdin?: boolean;
  readonly stdinOnce?: boolean;
  readonly tty?: boolean;
}

/** State of a container. One field is set, or none if the state is unknown. */
export interface ContainerStateDetails {
  readonly waiting?: { readonly reason: string; readonly message?: string };
  readonly running?: { readonly startedAt?: string };
  readonly terminated?: {
    readonly exitCode: number;
    readonly reason?: string;
    readonly message?: string;
    readonly startedAt?: string;
    readonly finishedAt?: string;
    readonly containerID?: string;
  };
}

export interface ContainerStatus {
  readonly name: string;
  readonly image: string;
  readonly imageID: string;
  readonly ready: boolean;
  readonly started?: boolean;
  readonly restartCount: number;
  readonly containerID?: string;
  readonly state: ContainerStateDetails;
  readonly lastState?: ContainerStateDetails;
}

/** Claim of a pod. Besides `name`, exactly one field is set. Source: Kubernetes core/v1 PodResourceClaim. */
export interface PodResourceClaim {
  readonly name: string;
  readonly resourceClaimName?: string;
  readonly resourceClaimTemplateName?: string;
}

/** Toleration of taints. Source: Kubernetes core/v1 Toleration. */
export interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly value?: string;
  readonly effect?: string;
  readonly tolerationSeconds?: number;
}

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
    readonly resourceClaims?: readonly PodResourceClaim[];
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
    /** Claims that were created from templates. `resourceClaimName` is unset if the template needs no claim. */
    readonly resourceClaimStatuses?: readonly {
      readonly name: string;
      readonly resourceClaimName?: string;
    }[];
  };
}

export function isPodFinished(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}
