// SPDX-License-Identifier: Apache-2.0
// What runs in a pod, and what the node says of it. Source: Kubernetes core/v1 Container, ContainerStatus.
import type { ObjectFieldSelector, ResourceFieldSelector } from "./pod-volume.ts";

interface KeySelector {
  readonly name?: string;
  readonly key: string;
  readonly optional?: boolean;
}

/** One variable of the environment: its value, or where it is from. */
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

/** All keys of a ConfigMap or Secret as variables. */
export interface EnvFromSource {
  readonly prefix?: string;
  readonly configMapRef?: { readonly name?: string; readonly optional?: boolean };
  readonly secretRef?: { readonly name?: string; readonly optional?: boolean };
}

/** Source: Kubernetes core/v1 SeccompProfile. */
export interface SeccompProfile {
  readonly type: "RuntimeDefault" | "Unconfined" | "Localhost";
  readonly localhostProfile?: string;
}

/** What a container's processes may do; what is absent is as the pod says. */
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

/** Source: Kubernetes core/v1 VolumeMount. */
export interface VolumeMount {
  readonly name: string;
  readonly mountPath: string;
  readonly subPath?: string;
  readonly subPathExpr?: string;
  readonly readOnly?: boolean;
  readonly mountPropagation?: "None" | "HostToContainer" | "Bidirectional";
}

/** A question that is asked of a container again and again; exactly one way of asking. Times in seconds. */
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

/** What runs in a pod: the image, its process, and what that may do. */
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
  };
  readonly securityContext?: SecurityContext;
  readonly volumeMounts?: readonly VolumeMount[];
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly startupProbe?: Probe;
  /** What is run after the start and before the end. Source: Kubernetes core/v1 Lifecycle. */
  readonly lifecycle?: { readonly postStart?: object; readonly preStop?: object };
  /** Of an init container: `Always` is a sidecar, which goes on beside the others. */
  readonly restartPolicy?: string;
  readonly volumeDevices?: readonly { readonly name: string; readonly devicePath: string }[];
  /** Whether the end of the log tells why it failed, where the container has left no message. */
  readonly terminationMessagePolicy?: "File" | "FallbackToLogsOnError";
  readonly stdin?: boolean;
  readonly stdinOnce?: boolean;
  readonly tty?: boolean;
}

/** How far a container is; one member, or none where nothing is known. */
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

/** State of a container as the runtime reports it. */
export interface ContainerStatus {
  readonly name: string;
  readonly image: string;
  readonly imageID: string;
  readonly ready: boolean;
  readonly started?: boolean;
  readonly restartCount: number;
  readonly containerID?: string;
  readonly state: ContainerStateDetails;
  /** How the run before ended. */
  readonly lastState?: ContainerStateDetails;
}
