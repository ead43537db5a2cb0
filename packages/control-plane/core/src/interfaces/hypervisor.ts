// SPDX-License-Identifier: Apache-2.0

/** State of a domain. A domain whose QEMU process died is `crashed`. Source: libvirt virDomainState, virDomainShutoffReason. */
export type DomainState =
  | "running"
  | "blocked"
  | "paused"
  | "shutdown"
  | "shutoff"
  | "crashed"
  | "suspended"
  | "unknown";

export interface DomainInfo {
  readonly name: string;
  readonly uuid: string;
  readonly state: DomainState;
  readonly persistent: boolean;
  /** Whether the domain is paused because of a disk error. Source: libvirt VIR_DOMAIN_PAUSED_IOERROR. */
  readonly hasDiskError?: true;
  /**
   * State of an outgoing migration. `left`: the domain is shut off because it migrated. `leaving`: the domain is paused for the
   * final transfer. Source: libvirt VIR_DOMAIN_SHUTOFF_MIGRATED, VIR_DOMAIN_PAUSED_MIGRATION.
   */
  readonly move?: "left" | "leaving";
}

/** Source: libvirt virConnectDomainEventID. */
export type HypervisorEvent =
  | {
      readonly kind: "lifecycle";
      readonly domain: string;
      readonly event: DomainLifecycle;
      readonly detail: number;
    }
  | {
      readonly kind: "deviceAdded" | "deviceRemoved" | "deviceRemovalFailed";
      readonly domain: string;
      readonly alias: string;
    }
  | { readonly kind: "agentConnected" | "agentDisconnected"; readonly domain: string }
  /** A new pass over the guest's memory started. Each pass sends the pages that the guest wrote during the previous pass. */
  | { readonly kind: "migrationIteration"; readonly domain: string; readonly iteration: number }
  /** A job completed. `downtimeMs`: the guest's downtime, if libvirt reports it. */
  | { readonly kind: "jobCompleted"; readonly domain: string; readonly downtimeMs?: number };

/** Source: libvirt virDomainEventType. */
export type DomainLifecycle =
  | "defined"
  | "undefined"
  | "started"
  | "suspended"
  | "resumed"
  | "stopped"
  | "shutdown"
  | "pmsuspended"
  | "crashed";

/** A NIC as the guest reports it. The strings are not trusted and may have any length. */
export interface GuestInterface {
  readonly name: string;
  readonly mac: string;
  /** Addresses as the guest reports them, without prefix lengths. At most 32 addresses for each NIC and 1024 in total. */
  readonly addresses: readonly string[];
}

/** The guest's operating system. The strings are not trusted. Source: libvirt virDomainGetGuestInfo. */
export interface GuestSystem {
  readonly id?: string;
  readonly name?: string;
  readonly prettyName?: string;
  readonly version?: string;
  readonly versionId?: string;
  readonly kernelRelease?: string;
  readonly kernelVersion?: string;
  readonly machine?: string;
}

/**
 * Topics for {@link HypervisorConnection.readGuestFacts}. NICs and the operating system are not topics, because `readGuestInterfaces` and
 * `readGuestSystem` query them. `agent`: version and commands. `freeze`: whether file systems are frozen. `routes`: whether an IPv4 default
 * route exists. Source: libvirt virDomainGuestInfoTypes; QEMU guest agent protocol, guest-info, guest-fsfreeze-status,
 * guest-network-get-route and, for older agents, guest-file-open of /proc/net/route.
 */
export type GuestTopic =
  | "agent"
  | "freeze"
  | "routes"
  | "hostname"
  | "timezone"
  | "users"
  | "filesystems";

/**
 * Untrusted values from the agent's reply. A key is libvirt's name, such as `user.0.name`, or one of Patchbay's own names: `agent.version`,
 * `agent.command.0.name`, `freeze.status` and `routes.default.ipv4` (`true` or `false`).
 */
export type GuestFacts = Readonly<Record<string, string>>;

/** `live`: the running domain. `config`: its persistent definition. Source: libvirt virDomainDeviceModifyFlags. */
export type DeviceTarget = "live" | "config";
/** Part of the domain to which a device is attached. `both`: the running domain and its definition; a failure changes neither. */
export type AttachTarget = DeviceTarget | "both";

export type HypervisorAddress =
  | { readonly kind: "uri"; readonly uri: string }
  /** O_PATH descriptor of a `qemu:///session` socket. The descriptor must remain open until `open` settles. */
  | { readonly kind: "socket"; readonly fd: number };

export interface ConnectionEnd {
  readonly reason: string;
  /**
   * Side that ended the connection. `us`: the caller closed it. `daemon`: libvirtd hung up, timed out or sent invalid data.
   * `client`: the child process that connects to libvirtd failed.
   */
  readonly by: "us" | "daemon" | "client";
}

export interface OpenOptions {
  /** Time limit for connecting, in milliseconds. The default allows for a daemon that is still starting. */
  readonly timeoutMs?: number;
}

/** Source: libvirt virDomainMigrateToURI3. */
export interface Migration {
  readonly peerUri: string;
  readonly memoryUri: string;
  /** XML of the live domain on the target, based on `readDomainXml(name, "moving")`. Unset: the domain is unchanged. */
  readonly liveXml?: string;
  /** XML of the persistent definition on the target. Unset: the definition is unchanged. */
  readonly configXml?: string;
  /** Disks to copy: `targets` contains their target names, such as `vda`; `uri` is the destination. Unset if all disks are shared. */
  readonly disks?: { readonly uri: string; readonly targets: readonly string[] };
  readonly bandwidthMibPerSecond?: number;
  /** Whether libvirt throttles a guest that writes memory faster than the migration transfers memory. */
  readonly throttles?: boolean;
  /** Whether to migrate even if libvirt considers a migration with these disks unsafe. */
  readonly allowsUnsafe?: boolean;
}

/** Progress of a domain's current job, for example a migration. Source: libvirt virDomainGetJobStats. */
export interface JobStats {
  readonly state: "none" | "running" | "completed" | "failed" | "cancelled" | "unknown";
  readonly move?: "out" | "in";
  readonly elapsedMs?: number;
  readonly totalBytes?: number;
  readonly processedBytes?: number;
  readonly remainingBytes?: number;
  readonly memoryBytesPerSecond?: number;
  readonly dirtyPagesPerSecond?: number;
  readonly pageBytes?: number;
  /** Share of CPU time that libvirt withholds from the guest, from 0 to 99 percent. */
  readonly throttlePercent?: number;
  readonly downtimeMs?: number;
}

export interface Hypervisor {
  /** @throws AppError with LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT */
  open(address: HypervisorAddress, options?: OpenOptions): Promise<HypervisorConnection>;
  close(): Promise<void>;
}

/**
 * A connection to a hypervisor. Calls run sequentially. Each call has a deadline, except `migrateDomain`. A call that fails throws
 * {@link AppError} with one of these codes: LIBVIRT_CONNECTION_LOST, LIBVIRT_TIMED_OUT, LIBVIRT_NO_DOMAIN, LIBVIRT_DEVICE_MISSING,
 * LIBVIRT_DEVICE_EXISTS, LIBVIRT_NO_FREE_PORT, LIBVIRT_ADDRESS_REFUSED, LIBVIRT_TAP_REFUSED, LIBVIRT_NOT_RUNNING,
 * LIBVIRT_UNSUPPORTED, LIBVIRT_BUSY, LIBVIRT_MIGRATING, LIBVIRT_UNPLUG_PENDING, LIBVIRT_JOB_ABORTED, LIBVIRT_PEER_LOST,
 * LIBVIRT_REFUSED.
 */
export interface HypervisorConnection {
  /** Source: libvirt virDomainLookupByName, virDomainGetState. */
  findDomain(name: string): Promise<DomainInfo | undefined>;
  /**
   * Returns the domain's XML. `moving` returns the live domain in the format for a migration to another daemon. Source: libvirt
   * virDomainGetXMLDesc with VIR_DOMAIN_XML_INACTIVE for `config`, VIR_DOMAIN_XML_MIGRATABLE for `moving`.
   */
  readDomainXml(name: string, part: DeviceTarget | "moving"): Promise<string>;
  /** Source: libvirt virDomainDefineXMLFlags. */
  defineDomain(xml: string): Promise<void>;
  /** Starts a defined domain, paused if requested. Succeeds if the domain already runs. Source: libvirt virDomainCreateWithFlags. */
  startDomain(name: string, initialState?: "running" | "paused"): Promise<void>;
  /** Requests a shutdown from the guest. Succeeds if the domain is already off. Source: libvirt virDomainShutdown. */
  shutdownDomain(name: string): Promise<void>;
  /** Stops the domain immediately. Succeeds if the domain is already off. Source: libvirt virDomainDestroy. */
  destroyDomain(name: string): Promise<void>;
  /** Pauses the vCPUs. Succeeds if the domain is already paused. Source: libvirt virDomainSuspend. */
  suspendDomain(name: string): Promise<void>;
  /** Resumes the vCPUs. Succeeds if the domain is already running. Source: libvirt virDomainResume. */
  resumeDomain(name: string): Promise<void>;
  /** Requests a reboot through the guest agent, or through the power button if no agent is connected. Source: libvirt virDomainReboot. */
  rebootDomain(name: string): Promise<void>;
  /** Resets the guest immediately. Source: libvirt virDomainReset. */
  resetDomain(name: string): Promise<void>;
  /** Source: libvirt virDomainAttachDeviceFlags. */
  attachDevice(name: string, xml: string, target: AttachTarget): Promise<void>;
  /** Requests an unplug without waiting. An event reports the removal. Source: libvirt virDomainDetachDeviceAlias. */
  detachDevice(name: string, alias: string, target: DeviceTarget): Promise<void>;
  /** Source: libvirt virDomainUpdateDeviceFlags. */
  updateDevice(name: string, xml: string, target: DeviceTarget): Promise<void>;
  /**
   * Returns at most 256 NICs that the guest agent reports, in the agent's order. Waits at most 2 s for the reply. Source:
   * libvirt virDomainInterfaceAddresses with VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE, or with a code that {@link HypervisorConnection} lists
   */
  readGuestInterfaces(name: string): Promise<readonly GuestInterface[]>;
  /**
   * Returns the operating system that the guest agent reports. Waits at most 2 s for the reply. Source: libvirt
   * virDomainGetGuestInfo with VIR_DOMAIN_GUEST_INFO_OS.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE, or with a code that {@link HypervisorConnection} lists
   */
  readGuestSystem(name: string): Promise<GuestSystem>;
  /**
   * Returns the guest agent's report on one topic, at most 1024 entries. Waits at most 2 s for each reply. `routes` requires
   * four replies. Source: libvirt virDomainGetGuestInfo, virDomainQemuAgentCommand.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE, or with a code that {@link HypervisorConnection} lists
   */
  readGuestFacts(name: string, topic: GuestTopic): Promise<GuestFacts>;
  /**
   * Migrates a running domain to another daemon, which defines the domain and leaves it paused. On this daemon the domain is shut off
   * but remains defined. The call has no deadline and blocks the connection until the migration ends; `abortJob` on another
   * connection aborts it. If the connection to a daemon breaks, callers must check the domain on both sides. Source: libvirt
   * virDomainMigrateToURI3 with VIR_MIGRATE_LIVE, PEER2PEER, PERSIST_DEST and PAUSED.
   * @throws AppError with LIBVIRT_JOB_ABORTED, LIBVIRT_PEER_LOST, or with another code that {@link HypervisorConnection} lists
   */
  migrateDomain(name: string, migration: Migration): Promise<void>;
  /** Source: libvirt virDomainGetJobStats. */
  readJob(name: string): Promise<JobStats>;
  /** Aborts the domain's job. Succeeds if the domain has no job. Source: libvirt virDomainAbortJob. */
  abortJob(name: string): Promise<void>;
  /** Sets the maximum downtime of a migrating guest. Source: libvirt virDomainMigrateSetMaxDowntime. */
  setMaxDowntime(name: string, downtimeMs: number): Promise<void>;
  /** Source: libvirt virDomainMigrateSetMaxSpeed. */
  setMaxSpeed(name: string, mibPerSecond: number): Promise<void>;
  /** Calls `listener` for each event until the returned function is called. Listeners must be registered before any other call. */
  onEvent(listener: (event: HypervisorEvent) => void): () => void;
  /** Resolves when the connection has ended. A connection is never reopened. */
  readonly closed: Promise<ConnectionEnd>;
  /** Closes the connection. Pending calls fail. */
  close(): Promise<void>;
}
