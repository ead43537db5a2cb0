// SPDX-License-Identifier: Apache-2.0
// What the node loop needs from libvirt.

/** State of a domain; `crashed` also when its process died. Source: libvirt virDomainState, virDomainShutoffReason. */
export type DomainState =
  "running" | "blocked" | "paused" | "shutdown" | "shutoff" | "crashed" | "suspended" | "unknown";

/** A domain in short, as libvirt tells it without its XML. */
export interface DomainInfo {
  readonly name: string;
  readonly uuid: string;
  readonly state: DomainState;
  /** Whether it has a definition that outlives it. */
  readonly persistent: boolean;
  /** It is paused because a disk failed. Source: libvirt VIR_DOMAIN_PAUSED_IOERROR. */
  readonly hasDiskError?: true;
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
  | { readonly kind: "agentConnected" | "agentDisconnected"; readonly domain: string };

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
 * What a guest's agent can be asked about, beside its NICs and its system; `agent` is itself.
 * Source: libvirt virDomainGuestInfoTypes; QEMU guest agent protocol, guest-info.
 */
export type GuestTopic = "agent" | "hostname" | "timezone" | "users" | "filesystems";

/**
 * What it tells: libvirt's names, such as `user.0.name`, and of the agent `agent.version` and `agent.command.0.name` in the
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
 * LIBVIRT_UNSUPPORTED, LIBVIRT_BUSY, LIBVIRT_MIGRATING, LIBVIRT_UNPLUG_PENDING, LIBVIRT_REFUSED.
 */
export interface HypervisorConnection {
  /** Source: libvirt virDomainLookupByName, virDomainGetState. */
  findDomain(name: string): Promise<DomainInfo | undefined>;
  /** Source: libvirt virDomainGetXMLDesc; `config` asks for VIR_DOMAIN_XML_INACTIVE. */
  readDomainXml(name: string, target: DeviceTarget): Promise<string>;
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
  /** Asks the guest to start anew: its agent, or by the power button where none listens. Source: libvirt virDomainReboot. */
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
   * What the guest's agent tells of one topic, at most 1024 facts; waits at most 2 s for its answer.
   * Source: libvirt virDomainGetGuestInfo, and of the agent virDomainQemuAgentCommand.
   * @throws AppError with LIBVIRT_AGENT_UNAVAILABLE too
   */
  readGuestFacts(name: string, topic: GuestTopic): Promise<GuestFacts>;
  /** Calls `listener` for each event, registered before any other call, until the returned function is called. */
  onEvent(listener: (event: HypervisorEvent) => void): () => void;
  /** Resolves when the connection is gone; it does not come back. */
  readonly closed: Promise<ConnectionEnd>;
  /** Calls in flight fail. */
  close(): Promise<void>;
}
