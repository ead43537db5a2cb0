// SPDX-License-Identifier: Apache-2.0
// What the node loop needs from libvirt.

/** State of a domain; `crashed` also when its process died. Source: libvirt virDomainState, virDomainShutoffReason. */
export type DomainState =
  | "running"
  | "blocked"
  | "paused"
  | "shutdown"
  | "shutoff"
  | "crashed"
  | "suspended"
  | "unknown";

/** A domain in short, as libvirt tells it without its XML. */
export interface DomainInfo {
  readonly name: string;
  readonly uuid: string;
  readonly state: DomainState;
  /** Whether it has a definition that outlives it. */
  readonly persistent: boolean;
  /** It is paused because a disk failed. Source: libvirt VIR_DOMAIN_PAUSED_IOERROR. */
  readonly hasDiskError?: true;
  /**
   * It is off since it runs elsewhere (`left`), or is paused for the last part of its way there (`leaving`).
   * Source: libvirt VIR_DOMAIN_SHUTOFF_MIGRATED, VIR_DOMAIN_PAUSED_MIGRATION.
   */
  readonly move?: "left" | "leaving";
}

/** What libvirt tells unasked. Source: libvirt virConnectDomainEventID. */
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
  /** An agent in the guest listens, or no longer does. */
  | { readonly kind: "agentConnected" | "agentDisconnected"; readonly domain: string }
  /** All memory has been sent so many times: what was written meanwhile is sent again. */
  | { readonly kind: "migrationIteration"; readonly domain: string; readonly iteration: number }
  /** A job has come to its end; the guest stood still for so long, milliseconds, where the job tells. */
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

/** A NIC as the guest names it; the guest's word, of any length and content. */
export interface GuestInterface {
  readonly name: string;
  readonly mac: string;
  /** As the guest writes them, without a prefix; at most 32, and 1024 of all NICs. */
  readonly addresses: readonly string[];
}

/** The system of a guest; each its word, of any content. Source: libvirt virDomainGetGuestInfo. */
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
 * What a guest's agent can be asked about, beside its NICs and its system; `agent` is itself,
 * `freeze` whether its file systems stand still, `routes` whether it has a default route of IPv4. Source: libvirt
 * virDomainGuestInfoTypes; QEMU guest agent protocol, guest-info, guest-fsfreeze-status, guest-network-get-route and, of agents that
 * do not know that one, guest-file-open of /proc/net/route.
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
 * What it tells: libvirt's names, such as `user.0.name`, of the agent `agent.version`, `freeze.status`, `routes.default.ipv4` (true or
 * false), and `agent.command.0.name` in the
 * same way; and the guest's words, of any content.
 */
export type GuestFacts = Readonly<Record<string, string>>;

/** The running guest, or the definition with which it starts next. Source: libvirt virDomainDeviceModifyFlags. */
export type DeviceTarget = "live" | "config";
/** One of them, or both in one call, which changes neither when it fails. */
export type AttachTarget = DeviceTarget | "both";

/** Where a libvirt listens. */
export type HypervisorAddress =
  /** A URI, for example `test:///default`. */
  | { readonly kind: "uri"; readonly uri: string }
  /** An open descriptor of a `qemu:///session` socket's inode (O_PATH); it must stay open until `open` is settled. */
  | { readonly kind: "socket"; readonly fd: number };

/** Why a connection is gone, and by whose doing. */
export interface ConnectionEnd {
  readonly reason: string;
  /** `daemon`: it hung up, fell silent, or said what cannot be; `client`: ours failed, and every connection with it. */
  readonly by: "us" | "daemon" | "client";
}

/** How patient an opening is. */
export interface OpenOptions {
  /** Deadline, milliseconds; absent: long enough for a daemon that has just been started. */
  readonly timeoutMs?: number;
}

/** How a domain goes to another daemon. Source: libvirt virDomainMigrateToURI3. */
export interface Migration {
  /** The other daemon, as the domain's own finds it. */
  readonly peerUri: string;
  /** Where the guest's memory goes, as the domain's own QEMU finds it. */
  readonly memoryUri: string;
  /** The running domain as the other daemon has it, made of `readDomainXml(name, "moving")`; absent: as here. */
  readonly liveXml?: string;
  /** The definition as the other daemon keeps it; absent: as here. */
  readonly configXml?: string;
  /** Disks that are copied along, by target, for example `vda`, and where they go; absent: none, all are seen by both. */
  readonly disks?: { readonly uri: string; readonly targets: readonly string[] };
  /** MiB a second at most; absent: as much as goes. */
  readonly bandwidthMibPerSecond?: number;
  /** Whether a guest that writes faster than memory is sent is slowed down. */
  readonly throttles?: boolean;
  /** Whether it goes although libvirt does not know that both see its disks alike. */
  readonly allowsUnsafe?: boolean;
}

/** A domain's job, for example its move. Source: libvirt virDomainGetJobStats. */
export interface JobStats {
  readonly state: "none" | "running" | "completed" | "failed" | "cancelled" | "unknown";
  /** Whether it is a move to another daemon, or from one; absent: another job, or none. */
  readonly move?: "out" | "in";
  readonly elapsedMs?: number;
  readonly totalBytes?: number;
  readonly processedBytes?: number;
  readonly remainingBytes?: number;
  /** Of memory, as it is sent now. */
  readonly memoryBytesPerSecond?: number;
  /** Of memory, as the guest writes it now. */
  readonly dirtyPagesPerSecond?: number;
  readonly pageBytes?: number;
  /** How much a guest is slowed down that writes too fast, 0 to 99. */
  readonly throttlePercent?: number;
  /** How long the guest stood still, or is expected to, milliseconds. */
  readonly downtimeMs?: number;
}

/** Opens connections to libvirt. */
export interface Hypervisor {
  /**
   * @throws AppError with LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT
   */
  open(address: HypervisorAddress, options?: OpenOptions): Promise<HypervisorConnection>;
  close(): Promise<void>;
}

/**
 * One connection; calls run one after the other, each with a deadline.
 * All throw {@link AppError}: LIBVIRT_CONNECTION_LOST, LIBVIRT_TIMED_OUT, LIBVIRT_NO_DOMAIN, LIBVIRT_DEVICE_MISSING,
 * LIBVIRT_DEVICE_EXISTS, LIBVIRT_NO_FREE_PORT, LIBVIRT_ADDRESS_REFUSED, LIBVIRT_TAP_REFUSED, LIBVIRT_NOT_RUNNING,
 * LIBVIRT_UNSUPPORTED, LIBVIRT_BUSY, LIBVIRT_MIGRATING, LIBVIRT_UNPLUG_PENDING, LIBVIRT_JOB_ABORTED, LIBVIRT_PEER_LOST,
 * LIBVIRT_REFUSED.
 */
export interface HypervisorConnection {
  /** Source: libvirt virDomainLookupByName, virDomainGetState. */
  findDomain(name: string): Promise<DomainInfo | undefined>;
  /**
   * `moving` is the running domain as another daemon takes it over.
   * Source: libvirt virDomainGetXMLDesc with VIR_DOMAIN_XML_INACTIVE for `config`, VIR_DOMAIN_XML_MIGRATABLE for `moving`.
   */
  readDomainXml(name: string, part: DeviceTarget | "moving"): Promise<string>;
  /** Source: libvirt virDomainDefineXMLFlags. */
  defineDomain(xml: string): Promise<void>;
  /**
   * Starts a defined domain; one that runs is success, whether it was to be paused or not.
   * Source: libvirt virDomainCreateWithFlags.
   */
  startDomain(name: string, how?: "running" | "paused"): Promise<void>;
  /** Asks the guest to shut down; one that is off is success. Source: libvirt virDomainShutdown. */
  shutdownDomain(name: string): Promise<void>;
  /** Ends it at once; one that is off is success. Source: libvirt virDomainDestroy. */
  destroyDomain(name: string): Promise<void>;
  /** Its vCPUs stand still; one that is paused is success. Source: libvirt virDomainSuspend. */
  suspendDomain(name: string): Promise<void>;
  /** Its vCPUs go on; one that runs is success. Source: libvirt virDomainResume. */
  resumeDomain(name: string): Promise<void>;
  /** Asks the guest to reboot: its agent, or by the power button where none listens. Source: libvirt virDomainReboot. */
  rebootDomain(name: string): Promise<void>;
  /** Starts it anew at once, as a reset button does. Source: libvirt virDomainReset. */
  resetDomain(name: string): Promise<void>;
  /** Source: libvirt virDomainAttachDeviceFlags. */
  attachDevice(name: string, xml: string, target: AttachTarget): Promise<void>;
  /** Asks only; the removed event decides. Source: libvirt virDomainDetachDeviceAlias. */
  detachDevice(name: string, alias: string, target: DeviceTarget): Promise<void>;
  /** Source: libvirt virDomainUpdateDeviceFlags. */
  updateDevice(name: string, xml: string, target: DeviceTarget): Promise<void>;
  /**
   * NICs as the guest's agent names them, at most 256, in its order; waits at most 2 s for its answer.
   * Source: libvirt virDomainInterfaceAddresses with VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE too
   */
  readGuestInterfaces(name: string): Promise<readonly GuestInterface[]>;
  /**
   * The guest's system as its agent tells it; waits at most 2 s for its answer.
   * Source: libvirt virDomainGetGuestInfo with VIR_DOMAIN_GUEST_INFO_OS.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE too
   */
  readGuestSystem(name: string): Promise<GuestSystem>;
  /**
   * What the guest's agent tells of one topic, at most 1024 facts; waits at most 2 s for each answer, of routes four.
   * Source: libvirt virDomainGetGuestInfo, and of the agent virDomainQemuAgentCommand.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE too
   */
  readGuestFacts(name: string, topic: GuestTopic): Promise<GuestFacts>;
  /**
   * Sends a running domain to another daemon, where it arrives paused and is defined; here it stays defined, and is off. No
   * deadline: it takes as long as it takes, this connection does nothing else meanwhile, and `abortJob` on another one ends it.
   * Where the connection or the way to the other daemon breaks, what became of the domain has to be looked at on both sides.
   * Source: libvirt virDomainMigrateToURI3 with VIR_MIGRATE_LIVE, PEER2PEER, PERSIST_DEST and PAUSED.
   * @throws AppError with LIBVIRT_JOB_ABORTED, LIBVIRT_PEER_LOST too
   */
  migrateDomain(name: string, migration: Migration): Promise<void>;
  /** What the domain is busy with. Source: libvirt virDomainGetJobStats. */
  readJob(name: string): Promise<JobStats>;
  /** Ends the domain's job; none is success. Source: libvirt virDomainAbortJob. */
  abortJob(name: string): Promise<void>;
  /** How long the guest of a move that goes on may stand still, milliseconds. Source: libvirt virDomainMigrateSetMaxDowntime. */
  setMaxDowntime(name: string, downtimeMs: number): Promise<void>;
  /** How fast it may go, MiB a second. Source: libvirt virDomainMigrateSetMaxSpeed. */
  setMaxSpeed(name: string, mibPerSecond: number): Promise<void>;
  /** Calls `listener` for each event, registered before any other call, until the returned function is called. */
  onEvent(listener: (event: HypervisorEvent) => void): () => void;
  /** Resolves when the connection is gone; it does not come back. */
  readonly closed: Promise<ConnectionEnd>;
  /** Calls in flight fail. */
  close(): Promise<void>;
}
