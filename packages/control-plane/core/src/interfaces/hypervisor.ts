// SPDX-License-Identifier: Apache-2.0

/** State of a domain. `crashed` includes a QEMU process that died. Source: libvirt virDomainState, virDomainShutoffReason. */
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
  /** Whether a disk error paused the domain. Source: libvirt VIR_DOMAIN_PAUSED_IOERROR. */
  readonly hasDiskError?: true;
  /**
   * `left`: shut off because the domain migrated to another host. `leaving`: paused for the final transfer.
   * Source: libvirt VIR_DOMAIN_SHUTOFF_MIGRATED, VIR_DOMAIN_PAUSED_MIGRATION.
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
  /** Pass `iteration` over the guest's memory started. Each pass after the first sends the pages written since the previous one. */
  | { readonly kind: "migrationIteration"; readonly domain: string; readonly iteration: number }
  /** A job completed. `downtimeMs` is how long the guest was paused, if libvirt reports it. */
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

/** A NIC as the guest reports it. The guest may send any text of any length. */
export interface GuestInterface {
  readonly name: string;
  readonly mac: string;
  /** Addresses as the guest writes them, without prefix lengths. At most 32 for each NIC and 1024 in total. */
  readonly addresses: readonly string[];
}

/** The guest's operating system. The guest may send any text. Source: libvirt virDomainGetGuestInfo. */
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
 * Topics of the guest agent besides NICs and operating system. `agent` is the agent itself, `freeze` whether file systems
 * are frozen, `routes` whether there is an IPv4 default route. Source: libvirt virDomainGuestInfoTypes; QEMU guest agent
 * protocol, guest-info, guest-fsfreeze-status, guest-network-get-route and, for older agents, guest-file-open of
 * /proc/net/route.
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
 * Values from the agent's reply. Keys are libvirt's, such as `user.0.name`, and `agent.version`, `agent.command.0.name`,
 * `freeze.status` and `routes.default.ipv4` (true or false). The guest may send any text as a value.
 */
export type GuestFacts = Readonly<Record<string, string>>;

/** The running domain, or its persistent definition. Source: libvirt virDomainDeviceModifyFlags. */
export type DeviceTarget = "live" | "config";
/** Where a device is attached. `both` changes the running domain and its definition, or neither. */
export type AttachTarget = DeviceTarget | "both";

export type HypervisorAddress =
  /** A URI, for example `test:///default`. */
  | { readonly kind: "uri"; readonly uri: string }
  /** An open descriptor (O_PATH) of a `qemu:///session` socket. It must stay open until `open` settles. */
  | { readonly kind: "socket"; readonly fd: number };

export interface ConnectionEnd {
  readonly reason: string;
  /** Which side ended the connection. `daemon`: libvirtd hung up, timed out or sent garbage; `client`: our child process failed. */
  readonly by: "us" | "daemon" | "client";
}

export interface OpenOptions {
  /** Time limit in milliseconds. The default is long enough for a daemon that has just started. */
  readonly timeoutMs?: number;
}

/** Source: libvirt virDomainMigrateToURI3. */
export interface Migration {
  readonly peerUri: string;
  /** URI at which the source QEMU reaches the target to transfer memory. */
  readonly memoryUri: string;
  /** The live domain on the target, based on `readDomainXml(name, "moving")`. Unset: same as on the source. */
  readonly liveXml?: string;
  /** The persistent definition on the target. Unset: same as on the source. */
  readonly configXml?: string;
  /** Disks to copy, by target name such as `vda`, and the URI that receives them. Unset if all disks are shared. */
  readonly disks?: { readonly uri: string; readonly targets: readonly string[] };
  readonly bandwidthMibPerSecond?: number;
  /** Whether libvirt throttles a guest that writes memory faster than it is transferred. */
  readonly throttles?: boolean;
  /** Migrates even if libvirt does not consider the disks safe. */
  readonly allowsUnsafe?: boolean;
}

/** A domain's job, for example its migration. Source: libvirt virDomainGetJobStats. */
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
  /** Share of CPU time that libvirt withholds from the guest, in percent, 0 to 99. */
  readonly throttlePercent?: number;
  readonly downtimeMs?: number;
}

export interface Hypervisor {
  /** @throws AppError with LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT */
  open(address: HypervisorAddress, options?: OpenOptions): Promise<HypervisorConnection>;
  close(): Promise<void>;
}

/**
 * One connection. Calls run one after the other, each with a deadline.
 * All throw {@link AppError}: LIBVIRT_CONNECTION_LOST, LIBVIRT_TIMED_OUT, LIBVIRT_NO_DOMAIN, LIBVIRT_DEVICE_MISSING,
 * LIBVIRT_DEVICE_EXISTS, LIBVIRT_NO_FREE_PORT, LIBVIRT_ADDRESS_REFUSED, LIBVIRT_TAP_REFUSED, LIBVIRT_NOT_RUNNING,
 * LIBVIRT_UNSUPPORTED, LIBVIRT_BUSY, LIBVIRT_MIGRATING, LIBVIRT_UNPLUG_PENDING, LIBVIRT_JOB_ABORTED, LIBVIRT_PEER_LOST,
 * LIBVIRT_REFUSED.
 */
export interface HypervisorConnection {
  /** Source: libvirt virDomainLookupByName, virDomainGetState. */
  findDomain(name: string): Promise<DomainInfo | undefined>;
  /**
   * Returns the domain's XML. `moving` is the live domain in the form that another daemon accepts.
   * Source: libvirt virDomainGetXMLDesc with VIR_DOMAIN_XML_INACTIVE for `config`, VIR_DOMAIN_XML_MIGRATABLE for `moving`.
   */
  readDomainXml(name: string, part: DeviceTarget | "moving"): Promise<string>;
  /** Source: libvirt virDomainDefineXMLFlags. */
  defineDomain(xml: string): Promise<void>;
  /**
   * Starts a defined domain, running or paused. A domain that already runs is success, even if it should start paused.
   * Source: libvirt virDomainCreateWithFlags.
   */
  startDomain(name: string, initialState?: "running" | "paused"): Promise<void>;
  /** Requests a shutdown. A domain that is off is success. Source: libvirt virDomainShutdown. */
  shutdownDomain(name: string): Promise<void>;
  /** Stops the domain at once. A domain that is off is success. Source: libvirt virDomainDestroy. */
  destroyDomain(name: string): Promise<void>;
  /** Pauses the vCPUs. A paused domain is success. Source: libvirt virDomainSuspend. */
  suspendDomain(name: string): Promise<void>;
  /** Resumes the vCPUs. A running domain is success. Source: libvirt virDomainResume. */
  resumeDomain(name: string): Promise<void>;
  /** Requests a reboot from the guest agent, or by the power button without one. Source: libvirt virDomainReboot. */
  rebootDomain(name: string): Promise<void>;
  /** Resets the guest at once. Source: libvirt virDomainReset. */
  resetDomain(name: string): Promise<void>;
  /** Source: libvirt virDomainAttachDeviceFlags. */
  attachDevice(name: string, xml: string, target: AttachTarget): Promise<void>;
  /** Requests the unplug only; an event reports the removal. Source: libvirt virDomainDetachDeviceAlias. */
  detachDevice(name: string, alias: string, target: DeviceTarget): Promise<void>;
  /** Source: libvirt virDomainUpdateDeviceFlags. */
  updateDevice(name: string, xml: string, target: DeviceTarget): Promise<void>;
  /**
   * Returns the NICs that the guest agent reports, at most 256, in its order. Waits at most 2 s for the reply.
   * Source: libvirt virDomainInterfaceAddresses with VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE as well
   */
  readGuestInterfaces(name: string): Promise<readonly GuestInterface[]>;
  /**
   * Returns the operating system that the guest agent reports. Waits at most 2 s for the reply.
   * Source: libvirt virDomainGetGuestInfo with VIR_DOMAIN_GUEST_INFO_OS.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE as well
   */
  readGuestSystem(name: string): Promise<GuestSystem>;
  /**
   * Returns the guest agent's report on one topic, at most 1024 entries. Waits at most 2 s for each reply; `routes` needs four replies.
   * Source: libvirt virDomainGetGuestInfo, and for the agent virDomainQemuAgentCommand.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE as well
   */
  readGuestFacts(name: string, topic: GuestTopic): Promise<GuestFacts>;
  /**
   * Migrates a running domain to another daemon, where it is defined and paused. On this daemon, it stays defined and is off.
   * There is no deadline: the connection is busy until the migration ends, and `abortJob` on another connection aborts it.
   * If the connection to either daemon breaks, check the domain on both sides.
   * Source: libvirt virDomainMigrateToURI3 with VIR_MIGRATE_LIVE, PEER2PEER, PERSIST_DEST and PAUSED.
   * @throws AppError with LIBVIRT_JOB_ABORTED, LIBVIRT_PEER_LOST as well
   */
  migrateDomain(name: string, migration: Migration): Promise<void>;
  /** Source: libvirt virDomainGetJobStats. */
  readJob(name: string): Promise<JobStats>;
  /** Aborts the domain's job. A domain without a job is success. Source: libvirt virDomainAbortJob. */
  abortJob(name: string): Promise<void>;
  /** Sets the longest pause of a migrating guest. Source: libvirt virDomainMigrateSetMaxDowntime. */
  setMaxDowntime(name: string, downtimeMs: number): Promise<void>;
  /** Source: libvirt virDomainMigrateSetMaxSpeed. */
  setMaxSpeed(name: string, mibPerSecond: number): Promise<void>;
  /** Calls `listener` for each event until the returned function is called. Register before any other call. */
  onEvent(listener: (event: HypervisorEvent) => void): () => void;
  /** Resolves when the connection has ended. It is not reopened. */
  readonly closed: Promise<ConnectionEnd>;
  /** Closes the connection. Calls in flight fail. */
  close(): Promise<void>;
}
