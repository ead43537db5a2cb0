// SPDX-License-Identifier: Apache-2.0
// A libvirt domain as Patchbay defines it.
import type { PciAddress, PciBridge, RootPort } from "./pci/addresses.ts";

/** Paths are those in the launcher. Every PCI device has an address, so that libvirt chooses none. */
export interface DomainDefinition {
  readonly name: string;
  /** Fixed, so that a repeated define updates the domain instead of conflicting with it. */
  readonly uuid: string;
  readonly accelerator: "kvm" | "qemu";
  /** libvirt's name, for example `q35` or `pc-i440fx-7.2`. */
  readonly machine: string;
  readonly vcpus: number;
  readonly memoryMiB: number;
  /** Whether guest memory can be shared with other processes (memfd). */
  readonly sharesMemory: boolean;
  readonly cpu: CpuDefinition;
  readonly firmware: FirmwareDefinition;
  /** Unset: the firmware boots from a disk or NIC. */
  readonly kernel?: KernelDefinition;
  readonly identity: IdentityDefinition;
  readonly features: FeaturesDefinition;
  readonly clock: ClockDefinition;
  /** Number of I/O threads; disks reference them by number, from 1. */
  readonly ioThreads: number;
  /** Without PCI controllers and those that the machine has implicitly. */
  readonly controllers: readonly ControllerDefinition[];
  readonly disks: readonly DiskDefinition[];
  readonly nics: readonly NicDefinition[];
  /** Disables MSI-X vectors of virtio NICs; unset: QEMU's default number of vectors. */
  readonly hasNoNicVectors?: true;
  readonly ports: readonly RootPort[];
  readonly bridges: readonly PciBridge[];
  readonly inputs: readonly InputDefinition[];
  readonly agent?: AgentChannel;
  readonly display?: DisplayDefinition;
  readonly rng?: { readonly pciAddress: PciAddress };
  readonly watchdog?: WatchdogDefinition;
  readonly tpm?: TpmDefinition;
  readonly console?: { readonly socketPath: string; readonly logPath: string };
}

export type FirmwareDefinition =
  | {
      readonly kind: "bios";
      /** Whether the firmware uses the serial console. */ readonly usesSerial: boolean;
    }
  | {
      readonly kind: "efi";
      /** Boots signed code only; requires System Management Mode. */
      readonly secureBoot: boolean;
      readonly codePath: string;
      readonly templatePath: string;
      readonly variablesPath: string;
    };

export interface KernelDefinition {
  readonly path: string;
  readonly initrdPath?: string;
  readonly args?: string;
}

/** Source: libvirt formatdomain, "CPU model and topology". */
interface CpuFeature {
  readonly name: string;
  readonly policy: "force" | "require" | "optional" | "disable" | "forbid";
}

export interface CpuDefinition {
  /** The product is the number of vCPUs. Unset: QEMU's default. */
  readonly topology?: {
    readonly sockets: number;
    readonly cores: number;
    readonly threads: number;
  };
  /** Unset: QEMU's default. */
  readonly model?:
    | { readonly mode: "host-model" | "host-passthrough" | "maximum" }
    | { readonly mode: "custom"; readonly name: string };
  readonly features: readonly CpuFeature[];
}

/** Source: libvirt formatdomain, "Time keeping". */
export interface TimerDefinition {
  readonly name: "hpet" | "pit" | "rtc" | "kvmclock" | "hypervclock";
  readonly isPresent: boolean;
  readonly tickPolicy?: "delay" | "catchup" | "merge" | "discard";
  readonly track?: "guest" | "wall";
}

export interface ClockDefinition {
  readonly offset:
    | { readonly kind: "utc" }
    | { readonly kind: "seconds"; readonly seconds: number }
    | { readonly kind: "timezone"; readonly timezone: string };
  readonly timers: readonly TimerDefinition[];
}

/** Unset features have QEMU's default. */
interface FeaturesDefinition {
  readonly acpi: boolean;
  readonly apic: boolean;
  readonly apicEndOfInterrupt?: boolean;
  readonly smm?: boolean;
  readonly kvmHidden?: boolean;
  readonly pvspinlock?: boolean;
}

/** SMBIOS data beside the UUID, which is the domain's. Source: DMTF DSP0134 sections 7.2 and 7.4. */
export interface IdentityDefinition {
  readonly serial?: string;
  readonly chassis?: Readonly<
    Partial<Record<"asset" | "manufacturer" | "serial" | "sku" | "version", string>>
  >;
}

/** Path in the launcher. The format is explicit, because guests can write a misleading header into a raw image. */
export interface DiskSource {
  readonly kind: "file" | "block";
  readonly path: string;
  readonly format: "raw" | "qcow2";
}

/** A PCI device of its own, or a unit on the controller of its bus. */
export type DiskAddress =
  | { readonly kind: "pci"; readonly address: PciAddress }
  | { readonly kind: "drive"; readonly controller: number; readonly unit: number };

/** In bytes. */
export interface BlockSizes {
  readonly logical: number;
  readonly physical: number;
  readonly discardGranularity?: number;
}

export interface DiskDefinition {
  /** libvirt drops aliases without the prefix `ua-`. */
  readonly alias: string;
  readonly source: DiskSource;
  readonly device: "disk" | "cdrom" | "lun";
  readonly bus: "virtio" | "scsi" | "sata";
  /** Unique device name by which libvirt orders disks: `vda` on virtio, `sda` on scsi and sata. */
  readonly target: string;
  readonly address: DiskAddress;
  readonly readOnly: boolean;
  readonly isTrayOpen?: boolean;
  /** Whether other VMs may use the disk at the same time. */
  readonly isShareable?: boolean;
  readonly serial?: string;
  /** Unset: QEMU's default, writeback. */
  readonly cache?: "none" | "writethrough" | "writeback" | "directsync";
  /** Unset: QEMU's default, threads. */
  readonly io?: "native" | "threads";
  readonly discard?: "unmap" | "ignore";
  readonly errorPolicy?: "stop" | "ignore" | "report" | "enospace";
  readonly blockSize?: BlockSizes;
  /** Lowest first, in one order with NICs; unset: no boot device. */
  readonly bootOrder?: number;
  /** Number of the I/O thread, from 1; virtio only. */
  readonly ioThread?: number;
  readonly queues?: number;
}

/** A controller that libvirt does not add by itself. */
export interface ControllerDefinition {
  readonly type: "scsi" | "sata" | "usb";
  readonly index: number;
  readonly pciAddress: PciAddress;
  /** Number of the I/O thread, from 1; scsi only. */
  readonly ioThread?: number;
}

/** A tap that exists before the domain is defined or the NIC attached. */
export interface TapSource {
  readonly tapName: string;
}

/** A vhost-user socket on which a process of the node already listens. */
export interface SocketSource {
  readonly socketPath: string;
}

export type NicDefinition = NicCommons & (TapSource | SocketSource);

interface NicCommons {
  /** libvirt drops aliases without the prefix `ua-`. */
  readonly alias: string;
  readonly mac: string;
  readonly model: string;
  /** Queue pairs, at least 1. */
  readonly queues: number;
  /** In bytes; 0: not announced to the guest. */
  readonly mtu: number;
  readonly linkUp: boolean;
  readonly pciAddress: PciAddress;
  /** Lowest first, in one order with disks; unset: no boot device. */
  readonly bootOrder?: number;
  /** Whether the NIC has a boot ROM, which network boot with BIOS needs. */
  readonly hasBootRom?: boolean;
  /** Index by which the firmware names the NIC: `eno<N>` in Linux. */
  readonly acpiIndex?: number;
}

/** libvirt recognizes the guest agent's channel by this name. Source: libvirt formatdomain, "Channel". */
export const AGENT_CHANNEL = "org.qemu.guest_agent.0";

interface AgentChannel {
  readonly socketPath: string;
  readonly pciAddress: PciAddress;
}

interface DisplayDefinition {
  readonly socketPath: string;
  readonly model: string;
  readonly memoryKiB?: number;
  readonly pciAddress: PciAddress;
}

interface WatchdogDefinition {
  readonly alias: string;
  readonly action: "reset" | "poweroff" | "shutdown";
  readonly pciAddress: PciAddress;
}

/** A TPM 2.0, emulated by swtpm; not on PCI. */
interface TpmDefinition {
  readonly model: string;
  readonly isPersistent: boolean;
}

/** A device on the controller of its bus, or a PCI device of its own. */
export type InputDefinition =
  | { readonly alias: string; readonly type: "tablet"; readonly bus: "usb"; readonly port: number }
  | {
      readonly alias: string;
      readonly type: "tablet";
      readonly bus: "virtio";
      readonly pciAddress: PciAddress;
    };
