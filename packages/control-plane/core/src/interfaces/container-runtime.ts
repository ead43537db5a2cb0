// SPDX-License-Identifier: Apache-2.0
// The subset of CRI v1 that Patchbay uses, mainly in node-runtime, the kubelet of standalone. Fields have CRI's names.

/** Source: CRI PodSandboxMetadata. */
export interface SandboxMetadata {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  /** Number of earlier sandboxes of the pod. */
  readonly attempt: number;
}

/** Namespace that a container uses: the sandbox's (POD), its own (CONTAINER) or the node's (NODE). Source: CRI NamespaceMode. */
export type NamespaceMode = "POD" | "CONTAINER" | "NODE";

export interface NamespaceOptions {
  readonly network: "POD" | "NODE";
  readonly pid: NamespaceMode;
  readonly ipc: "POD" | "NODE";
}

export type SecurityProfile = "RuntimeDefault" | "Unconfined";

/** Source: CRI PodSandboxConfig, LinuxPodSandboxConfig. */
export interface SandboxConfig {
  readonly metadata: SandboxMetadata;
  /** Host name of the pod. Empty with host networking, because runtimes reject a host name for such pods. */
  readonly hostname: string;
  readonly logDirectory: string;
  readonly dns?: {
    readonly servers: readonly string[];
    readonly searches: readonly string[];
    readonly options: readonly string[];
  };
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly cgroupParent: string;
  /** Named configuration of the container runtime; unset for the runtime's default. Source: CRI RunPodSandboxRequest. */
  readonly runtimeHandler?: string;
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

export type SandboxState = "READY" | "NOTREADY";

/** Source: CRI PodSandbox. */
export interface SandboxSummary {
  readonly id: string;
  readonly metadata: SandboxMetadata;
  readonly state: SandboxState;
  /** Time in nanoseconds since 1970. */
  readonly createdAt: bigint;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Source: CRI PodSandboxStatus, with the verbose information of containerd and CRI-O. */
export interface SandboxStatus extends SandboxSummary {
  /** The sandbox's addresses, starting with the primary address. Empty with host networking. */
  readonly ips: readonly string[];
  /** PID of the pause container. Unset if the runtime reports no PID or the container has exited. */
  readonly pid?: number;
  /** Path of the network namespace. Unset if the pod uses host networking. */
  readonly netnsPath?: string;
}

export type MountPropagation = "PRIVATE" | "HOST_TO_CONTAINER" | "BIDIRECTIONAL";

/** Source: CRI Mount. */
export interface ContainerMount {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly readonly: boolean;
  readonly propagation: MountPropagation;
}

/** A device node in a container. `permissions` combines the letters `r`, `w` and `m`. Source: CRI Device. */
export interface ContainerDevice {
  readonly containerPath: string;
  readonly hostPath: string;
  readonly permissions: string;
}

/** Source: CRI LinuxContainerResources. */
export interface ContainerResources {
  readonly cpuShares?: number;
  /** CPU time that the container may use in each `cpuPeriod`. `cpuQuota` and `cpuPeriod` are in microseconds. */
  readonly cpuQuota?: number;
  readonly cpuPeriod?: number;
  readonly memoryLimitBytes?: number;
  /** Score adjustment of the kernel's OOM killer, from -1000 to 1000. */
  readonly oomScoreAdj?: number;
}

/**
 * Security settings of a container. If user and group are set, the process gets only that group and `supplementalGroups`,
 * without the groups of the image's user. Source: CRI LinuxContainerSecurityContext.
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

export interface ContainerConfig {
  readonly metadata: { readonly name: string; readonly attempt: number };
  readonly image: string;
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly workingDir: string;
  readonly env: readonly (readonly [name: string, value: string])[];
  readonly mounts: readonly ContainerMount[];
  readonly devices: readonly ContainerDevice[];
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Path of the log file, relative to the sandbox's `logDirectory`. */
  readonly logPath: string;
  readonly stdin: boolean;
  readonly stdinOnce: boolean;
  readonly tty: boolean;
  readonly resources: ContainerResources;
  readonly security: ContainerSecurity;
}

export type ContainerState = "CREATED" | "RUNNING" | "EXITED" | "UNKNOWN";

/** Source: CRI Container. */
export interface ContainerSummary {
  readonly id: string;
  readonly sandboxId: string;
  readonly name: string;
  readonly attempt: number;
  readonly state: ContainerState;
  /** Time in nanoseconds since 1970. */
  readonly createdAt: bigint;
  readonly image: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface ContainerStatus extends Omit<ContainerSummary, "sandboxId"> {
  /** Start time in nanoseconds since 1970. 0n until the container has started. */
  readonly startedAt: bigint;
  readonly finishedAt: bigint;
  readonly exitCode: number;
  /** Machine-readable reason of the state, for example `Completed`, `Error`, `OOMKilled` or `ContainerCannotRun`. */
  readonly reason: string;
  readonly message: string;
  /** Digest reference of the running image, or its ID. */
  readonly imageRef: string;
  readonly logPath: string;
}

/** Size of a container's writable layer. Source: CRI ContainerStats. */
export interface ContainerWrites {
  readonly id: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Size at the runtime's last measurement, which may be several seconds old. */
  readonly writtenBytes: number;
}

/** Source: CRI Image. */
export interface ContainerImage {
  readonly id: string;
  readonly tags: readonly string[];
  readonly digests: readonly string[];
  readonly bytes: number;
  /** User ID from the image. Unset if the image's user is a name. */
  readonly uid?: number;
  /** User name from the image. Empty if the image's user is numeric. */
  readonly username: string;
}

/** Source: CRI AuthConfig. */
export interface RegistryCredentials {
  readonly username?: string;
  readonly password?: string;
  readonly identityToken?: string;
}

export interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface AttachRequest {
  readonly containerId: string;
  /** Whether the stream is a terminal. For `attach`, the value must match the container's `tty`. */
  readonly tty: boolean;
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
}

export interface ExecRequest extends AttachRequest {
  readonly command: readonly string[];
}

export interface RuntimeFilter {
  readonly sandboxId?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/**
 * A container runtime. Stopping or removing a missing object succeeds. Lookups return undefined for unknown IDs.
 * @throws AppError from every call: CRI_UNAVAILABLE (no response), CRI_FAILED (with the details `call`, `status` and `reason`),
 * CRI_TIMED_OUT
 */
export interface ContainerRuntime {
  version(): Promise<{ readonly name: string; readonly version: string }>;
  /** Returns why the runtime or its network is not ready; undefined if both are ready. */
  findProblem(): Promise<string | undefined>;

  runSandbox(config: SandboxConfig): Promise<string>;
  /** Kills the sandbox's containers and removes its network. */
  stopSandbox(id: string): Promise<void>;
  removeSandbox(id: string): Promise<void>;
  listSandboxes(filter?: RuntimeFilter): Promise<readonly SandboxSummary[]>;
  findSandbox(id: string): Promise<SandboxStatus | undefined>;

  createContainer(
    sandboxId: string,
    config: ContainerConfig,
    sandbox: SandboxConfig,
  ): Promise<string>;
  startContainer(id: string): Promise<void>;
  /** Sends the image's stop signal, and SIGKILL after `graceSeconds`. Resolves when the container has exited. */
  stopContainer(id: string, graceSeconds: number): Promise<void>;
  removeContainer(id: string): Promise<void>;
  listContainers(filter?: RuntimeFilter): Promise<readonly ContainerSummary[]>;
  findContainer(id: string): Promise<ContainerStatus | undefined>;
  /** Lists the writable layers of all containers. Some runtimes omit exited containers. */
  listWrites(): Promise<readonly ContainerWrites[]>;

  /**
   * Runs a program in a container and waits until the program exits. At the deadline the runtime kills the program, and the call fails with
   * CRI_TIMED_OUT. With more than 64 KiB of output, the call fails with CRI_FAILED and status RESOURCE_EXHAUSTED.
   */
  execSync(id: string, command: readonly string[], timeoutSeconds: number): Promise<ExecResult>;
  /** Returns the URL of an exec stream (SPDY or WebSocket). The program starts when a client connects to the URL. */
  exec(request: ExecRequest): Promise<string>;
  /** Returns the URL of a stream (SPDY or WebSocket) to the container's main process. */
  attach(request: AttachRequest): Promise<string>;
  reopenLog(id: string): Promise<void>;

  findImage(reference: string): Promise<ContainerImage | undefined>;
  /** Pulls an image from its registry and returns the image ID. An aborted pull leaves no data behind. */
  pullImage(
    reference: string,
    credentials?: RegistryCredentials,
    signal?: AbortSignal,
  ): Promise<string>;
  listImages(): Promise<readonly ContainerImage[]>;
  removeImage(id: string): Promise<void>;

  /**
   * Calls `onChange` with the ID of each sandbox or container that was started, stopped or removed, until `signal` aborts. Calls `onChange`
   * without an ID after each connection to the runtime, because events may have been missed. Events may be repeated.
   */
  watch(onChange: (id: string | undefined) => void, signal: AbortSignal): void;
  close(): void;
}
