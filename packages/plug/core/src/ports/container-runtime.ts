// SPDX-License-Identifier: Apache-2.0
// The container runtime as a kubelet sees it: CRI v1, in its own words, as far as they are used here.

/** Who a sandbox is for. Source: CRI PodSandboxMetadata. */
export interface SandboxMetadata {
  readonly name: string;
  readonly namespace: string;
  /** Of the pod. */
  readonly uid: string;
  /** From 0; one more for each sandbox of the same pod. */
  readonly attempt: number;
}

/** Whose namespace: the sandbox's own, the container's own, or the node's. Source: CRI NamespaceMode. */
export type NamespaceMode = "POD" | "CONTAINER" | "NODE";

/** Source: CRI NamespaceOption. */
export interface NamespaceOptions {
  readonly network: "POD" | "NODE";
  readonly pid: NamespaceMode;
  readonly ipc: "POD" | "NODE";
}

/** Source: CRI SecurityProfile. */
export type SecurityProfile = "RuntimeDefault" | "Unconfined";

/** What the sandbox is to be. Source: CRI PodSandboxConfig, LinuxPodSandboxConfig. */
export interface SandboxConfig {
  readonly metadata: SandboxMetadata;
  /** Empty in the node's network: runtimes refuse to name the node. */
  readonly hostname: string;
  /** Absolute; log paths of its containers are below it. */
  readonly logDirectory: string;
  readonly dns?: {
    readonly servers: readonly string[];
    readonly searches: readonly string[];
    readonly options: readonly string[];
  };
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly cgroupParent: string;
  readonly sysctls: Readonly<Record<string, string>>;
  readonly security: {
    readonly namespaces: NamespaceOptions;
    readonly runAsUser?: number;
    readonly runAsGroup?: number;
    readonly supplementalGroups: readonly number[];
    readonly readonlyRootfs: boolean;
    readonly privileged: boolean;
    readonly seccomp: SecurityProfile;
  };
}

/** Source: CRI PodSandboxState. */
export type SandboxState = "READY" | "NOTREADY";

/** One line of a list of sandboxes. Source: CRI PodSandbox. */
export interface SandboxSummary {
  readonly id: string;
  readonly metadata: SandboxMetadata;
  readonly state: SandboxState;
  /** Nanoseconds since 1970. */
  readonly createdAt: bigint;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Source: CRI PodSandboxStatus, with what verbose answers of containerd and CRI-O add. */
export interface SandboxStatus extends SandboxSummary {
  /** The first is the primary one. Empty in the node's network. */
  readonly ips: readonly string[];
  /** Of the pause container; absent when the runtime does not tell or it is dead. */
  readonly pid?: number;
  /** Path of the network namespace; absent in the node's network. */
  readonly netnsPath?: string;
}

/** Source: CRI MountPropagation. */
export type MountPropagation = "PRIVATE" | "HOST_TO_CONTAINER" | "BIDIRECTIONAL";

/** Source: CRI Mount. */
export interface ContainerMount {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readonly: boolean;
  readonly propagation: MountPropagation;
}

/** Source: CRI Device; `permissions` of `r`, `w`, `m`. */
export interface ContainerDevice {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly permissions: string;
}

/** Source: CRI LinuxContainerResources. */
export interface ContainerResources {
  readonly cpuShares?: number;
  /** Microseconds in each `cpuPeriod`. */
  readonly cpuQuota?: number;
  /** Microseconds. */
  readonly cpuPeriod?: number;
  readonly memoryLimitBytes?: number;
  /** -1000 to 1000. */
  readonly oomScoreAdj?: number;
}

/**
 * Source: CRI LinuxContainerSecurityContext. A list of masked or read-only paths that is empty masks nothing. With user and
 * group the container is of that group and of `supplementalGroups`, whatever its image has for that user.
 */
export interface ContainerSecurity {
  readonly namespaces: NamespaceOptions;
  readonly capabilities: { readonly add: readonly string[]; readonly drop: readonly string[] };
  readonly privileged: boolean;
  readonly runAsUser?: number;
  readonly runAsGroup?: number;
  readonly runAsUsername?: string;
  readonly readonlyRootfs: boolean;
  readonly supplementalGroups: readonly number[];
  readonly noNewPrivileges: boolean;
  readonly maskedPaths: readonly string[];
  readonly readonlyPaths: readonly string[];
  readonly seccomp: SecurityProfile;
}

/** Source: CRI ContainerConfig. */
export interface ContainerConfig {
  readonly metadata: { readonly name: string; readonly attempt: number };
  /** An image's id, or a reference that is there. */
  readonly image: string;
  /** Takes the place of the image's entrypoint. */
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly workingDir: string;
  readonly env: readonly (readonly [name: string, value: string])[];
  readonly mounts: readonly ContainerMount[];
  readonly devices: readonly ContainerDevice[];
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Relative to the sandbox's log directory. */
  readonly logPath: string;
  readonly stdin: boolean;
  readonly stdinOnce: boolean;
  readonly tty: boolean;
  readonly resources: ContainerResources;
  readonly security: ContainerSecurity;
}

/** Source: CRI ContainerState. */
export type ContainerState = "CREATED" | "RUNNING" | "EXITED" | "UNKNOWN";

/** One line of a list of containers. Source: CRI Container. */
export interface ContainerSummary {
  readonly id: string;
  readonly sandboxId: string;
  readonly name: string;
  readonly attempt: number;
  readonly state: ContainerState;
  /** Nanoseconds since 1970. */
  readonly createdAt: bigint;
  readonly image: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Source: CRI ContainerStatus. */
export interface ContainerStatus extends Omit<ContainerSummary, "sandboxId"> {
  /** Nanoseconds since 1970; 0n: it has not happened. */
  readonly startedAt: bigint;
  readonly finishedAt: bigint;
  readonly exitCode: number;
  /** For example `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`. */
  readonly reason: string;
  readonly message: string;
  /** Digest reference or id of what runs. */
  readonly imageRef: string;
  /** Absolute. */
  readonly logPath: string;
}

/** What a container has put on the disk beside its image. Source: CRI ContainerStats. */
export interface ContainerWrites {
  readonly id: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Of its root file system, as the runtime measured them last: some seconds ago. */
  readonly writtenBytes: number;
}

/** Source: CRI Image. */
export interface ContainerImage {
  readonly id: string;
  readonly tags: readonly string[];
  readonly digests: readonly string[];
  readonly bytes: number;
  /** The image's user where it is a number. */
  readonly uid?: number;
  /** Else its name; empty: none. */
  readonly username: string;
}

/** How a registry knows who asks: a name and a password, or a token of its own. Source: CRI AuthConfig. */
export interface RegistryCredentials {
  readonly username?: string;
  readonly password?: string;
  readonly identityToken?: string;
}

/** What a program inside a container said. */
export interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Source: CRI AttachRequest. */
export interface AttachRequest {
  readonly containerId: string;
  /** For `attach`: whether the container has a terminal. */
  readonly tty: boolean;
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
}

/** Source: CRI ExecRequest. */
export interface ExecRequest extends AttachRequest {
  readonly command: readonly string[];
}

/** Which sandboxes or containers a list is of; all given ones must match. */
export interface RuntimeFilter {
  readonly sandboxId?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/**
 * A container runtime. Calls that end or remove something succeed where it is gone already; what is asked for by an id
 * that is not there is undefined.
 * @throws AppError of every call: CRI_UNAVAILABLE (nobody answers), CRI_FAILED (with the call, CRI's code and words), CRI_TIMED_OUT
 */
export interface ContainerRuntime {
  version(): Promise<{ readonly name: string; readonly version: string }>;
  /** Undefined when the runtime and its network are ready, else why not. */
  problem(): Promise<string | undefined>;

  /** Makes the sandbox with its network, and starts it; returns its id. */
  runSandbox(config: SandboxConfig): Promise<string>;
  /** Ends its containers by force, and gives its network back. */
  stopSandbox(id: string): Promise<void>;
  /** Its containers too. */
  removeSandbox(id: string): Promise<void>;
  listSandboxes(filter?: RuntimeFilter): Promise<readonly SandboxSummary[]>;
  findSandbox(id: string): Promise<SandboxStatus | undefined>;

  createContainer(
    sandboxId: string,
    config: ContainerConfig,
    sandbox: SandboxConfig,
  ): Promise<string>;
  startContainer(id: string): Promise<void>;
  /** The image's stop signal, and SIGKILL after `graceSeconds`; resolves when it has ended. */
  stopContainer(id: string, graceSeconds: number): Promise<void>;
  removeContainer(id: string): Promise<void>;
  listContainers(filter?: RuntimeFilter): Promise<readonly ContainerSummary[]>;
  findContainer(id: string): Promise<ContainerStatus | undefined>;
  /** Of the containers that run, and of those that have ended where the runtime tells. */
  listWrites(): Promise<readonly ContainerWrites[]>;

  /**
   * Runs a program in a container to its end; killed after the deadline, which is CRI_TIMED_OUT. One that says more than
   * 64 KiB is CRI_FAILED with the status RESOURCE_EXHAUSTED.
   */
  execSync(id: string, command: readonly string[], timeoutSeconds: number): Promise<ExecResult>;
  /** URL of a stream (SPDY or websocket upgrade) that runs the program as soon as it is opened. */
  exec(request: ExecRequest): Promise<string>;
  /** The same of a stream of what the container's own program reads and says from then on. */
  attach(request: AttachRequest): Promise<string>;
  /** After its log was moved away. */
  reopenLog(id: string): Promise<void>;

  findImage(reference: string): Promise<ContainerImage | undefined>;
  /** Fetches it from its registry, as whoever the credentials name; returns its id. The signal ends it, and nothing stays. */
  pullImage(
    reference: string,
    credentials?: RegistryCredentials,
    signal?: AbortSignal,
  ): Promise<string>;
  listImages(): Promise<readonly ContainerImage[]>;
  removeImage(id: string): Promise<void>;

  /**
   * Calls `changed` with a sandbox's or container's id when it has started, ended or been removed, and without one each
   * time that a connection was made, the first too (anything may have changed), until aborted. The same may be told twice.
   */
  watch(changed: (id: string | undefined) => void, signal: AbortSignal): void;
  close(): void;
}
