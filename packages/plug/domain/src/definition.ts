// SPDX-License-Identifier: Apache-2.0
// A domain as Patchbay defines it.
import type { PciAddress } from "./pci/addresses.ts";

/** A PCIe root port: its controller index is the number of the bus behind it. */
export interface RootPort {
  readonly index: number;
  readonly address: PciAddress;
  readonly multifunction: boolean;
}

/** A pcie-to-pci-bridge: its controller index is the number of its conventional bus, which has slots 1 to 31. */
export interface PciBridge {
  readonly index: number;
  readonly address: PciAddress;
}

/** Machine types whose PCI layout Patchbay knows. */
export type MachineFamily = "q35" | "pc";

/** A domain, whole. Paths are those in the launcher; everything on PCI has its address, so that libvirt chooses none. */
export interface DomainDefinition {
  readonly name: string;
  /** Given, so that defining it again changes it instead of clashing with it. */
  readonly uuid: string;
  /** `qemu` is software emulation. */
  readonly accelerator: "kvm" | "qemu";
  /** As libvirt names it, for example `q35` or `pc-i440fx-7.2`. */
  readonly machine: string;
  readonly vcpus: number;
  readonly memoryMiB: number;
  /** Whether the guest's memory can be shared with other processes (memfd). */
  readonly sharesMemory: boolean;
  readonly cpu: CpuDefinition;
  readonly firmware: FirmwareDefinition;
  /** Absent: what firmware finds is booted. */
  readonly kernel?: KernelDefinition;
  readonly identity: IdentityDefinition;
  readonly features: FeaturesDefinition;
  readonly clock: ClockDefinition;
  /** Threads for the work of disks, which name them by number, from 1. */
  readonly ioThreads: number;
  /** Beside PCI's own and what the machine has by itself. */
  readonly controllers: readonly ControllerDefinition[];
  readonly disks: readonly DiskDefinition[];
  readonly nics: readonly NicDefinition[];
  /** NICs of virtio have no interrupt vectors (MSI-X); absent: as many as they want. */
  readonly hasNoNicVectors?: true;
  /** PCIe root ports, those of the devices included. */
  readonly ports: readonly RootPort[];
  readonly bridges: readonly PciBridge[];
  readonly inputs: readonly InputDefinition[];
  readonly agent?: AgentChannel;
  readonly display?: DisplayDefinition;
  readonly rng?: { readonly pciAddress: PciAddress };
  readonly watchdog?: WatchdogDefinition;
  readonly tpm?: TpmDefinition;
  /** The serial console; absent: the guest has none. */
  readonly console?: { readonly socketPath: string; readonly logPath: string };
}

/** The family of a machine type, or undefined when Patchbay does not know its PCI layout. Source: QEMU `-machine help`. */
export function machineFamilyOf(machine: string): MachineFamily | undefined {
  if (machine === "q35" || machine.startsWith("pc-q35-")) return "q35";
  if (machine === "pc" || machine.startsWith("pc-i440fx-")) return "pc";
  return undefined;
}

/** Firmware of the guest. Paths are those in the launcher. */
export type FirmwareDefinition =
  | {
      readonly kind: "bios";
      /** Whether it speaks on the serial console. */ readonly usesSerial: boolean;
    }
  | {
      readonly kind: "efi";
      /** Whether only signed code is booted; needs System Management Mode. */
      readonly secureBoot: boolean;
      readonly codePath: string;
      /** What variables begin with: libvirt copies it to `variablesPath` where nothing is. */
      readonly templatePath: string;
      readonly variablesPath: string;
    };

/** A kernel that is booted directly. */
export interface KernelDefinition {
  readonly path: string;
  readonly initrdPath?: string;
  readonly args?: string;
}

/** A feature of the processor. Source: libvirt formatdomain, "CPU model and topology". */
interface CpuFeature {
  readonly name: string;
  readonly policy: "force" | "require" | "optional" | "disable" | "forbid";
}

/** The processors, as the guest sees them. */
export interface CpuDefinition {
  /** Sockets, cores of each, threads of each core: their product is the domain's vCPUs. Absent: QEMU's choice. */
  readonly topology?: {
    readonly sockets: number;
    readonly cores: number;
    readonly threads: number;
  };
  /** The host's by its nearest name, the host's itself, all that can be had, or one that has a name. Absent: QEMU's own. */
  readonly model?:
    | { readonly mode: "host-model" | "host-passthrough" | "maximum" }
    | { readonly mode: "custom"; readonly name: string };
  readonly features: readonly CpuFeature[];
}

/** A timer of the guest. Source: libvirt formatdomain, "Time keeping". */
export interface TimerDefinition {
  readonly name: "hpet" | "pit" | "rtc" | "kvmclock" | "hypervclock";
  readonly isPresent: boolean;
  readonly tickPolicy?: "delay" | "catchup" | "merge" | "discard";
  readonly track?: "guest" | "wall";
}

/** The guest's clock. */
export interface ClockDefinition {
  /** UTC, UTC and so many seconds, or the time of a zone. */
  readonly offset:
    | { readonly kind: "utc" }
    | { readonly kind: "seconds"; readonly seconds: number }
    | { readonly kind: "timezone"; readonly timezone: string };
  readonly timers: readonly TimerDefinition[];
}

/** Features of the machine; absent ones are as QEMU has them. */
interface FeaturesDefinition {
  readonly acpi: boolean;
  readonly apic: boolean;
  /** Whether the end of an interrupt is told without an exit. */
  readonly apicEndOfInterrupt?: boolean;
  readonly smm?: boolean;
  /** Whether the guest does not see that KVM runs it. */
  readonly kvmHidden?: boolean;
  readonly pvspinlock?: boolean;
}

/** What the guest reads of its machine by SMBIOS, beside the UUID, which is the domain's. Source: DMTF DSP0134 sections 7.2 and 7.4. */
export interface IdentityDefinition {
  readonly serial?: string;
  readonly chassis?: Readonly<
    Partial<Record<"asset" | "manufacturer" | "serial" | "sku" | "version", string>>
  >;
}

/** Where the bytes are, in the launcher. What the bytes say of themselves is never asked: the format is given. */
export interface DiskSource {
  readonly kind: "file" | "block";
  readonly path: string;
  readonly format: "raw" | "qcow2";
}

/** Where the guest finds it: a PCI device of its own, or a unit of the controller of its bus. */
export type DiskPlace =
  | { readonly kind: "pci"; readonly address: PciAddress }
  | { readonly kind: "drive"; readonly controller: number; readonly unit: number };

/** Sizes in bytes. */
export interface BlockSizes {
  readonly logical: number;
  readonly physical: number;
  readonly discardGranularity?: number;
}

/** A disk that the domain is defined with. */
export interface DiskDefinition {
  /** Begins with `ua-`, else libvirt drops it. */
  readonly alias: string;
  readonly source: DiskSource;
  readonly device: "disk" | "cdrom" | "lun";
  readonly bus: "virtio" | "scsi" | "sata";
  /** Name that libvirt orders disks by, unique in the domain: `vda` on virtio, `sda` on scsi and sata. */
  readonly target: string;
  readonly place: DiskPlace;
  readonly readOnly: boolean;
  readonly isTrayOpen?: boolean;
  /** Whether other machines may have it at the same time. */
  readonly isShareable?: boolean;
  readonly serial?: string;
  /** Absent: QEMU's own, which is writeback. */
  readonly cache?: "none" | "writethrough" | "writeback" | "directsync";
  /** Absent: QEMU's own, which is threads. */
  readonly io?: "native" | "threads";
  readonly discard?: "unmap" | "ignore";
  readonly errorPolicy?: "stop" | "ignore" | "report" | "enospace";
  readonly blockSize?: BlockSizes;
  /** Lower boots first, counted together with those of NICs; absent: not booted from. */
  readonly bootOrder?: number;
  /** Number of the thread that does its work, from 1; only on virtio. */
  readonly ioThread?: number;
  /** Queues, where it has more than one; only on virtio. */
  readonly queues?: number;
}

/** A controller that is not there by itself; each has a place on PCI. */
export interface ControllerDefinition {
  readonly type: "scsi" | "sata" | "usb";
  /** Counted for each type. */
  readonly index: number;
  readonly pciAddress: PciAddress;
  /** Number of the thread that does the work of its disks, from 1; only of type scsi. */
  readonly ioThread?: number;
}

/** Opens a tap, which is there before the domain is defined or the NIC attached. */
export interface TapSource {
  readonly tapName: string;
}

/** Speaks vhost-user at a socket where a process of the node listens already. */
export interface SocketSource {
  /** In the launcher. */
  readonly socketPath: string;
}

/** A NIC of the domain. */
export type NicDefinition = NicCommons & (TapSource | SocketSource);

interface NicCommons {
  /** Begins with `ua-`, else libvirt drops it. */
  readonly alias: string;
  readonly mac: string;
  /** Device model; `virtio` for paravirtual. */
  readonly model: string;
  /** Pairs of queues, at least 1. */
  readonly queues: number;
  /** Bytes; 0: the guest is told none. */
  readonly mtu: number;
  readonly linkUp: boolean;
  readonly pciAddress: PciAddress;
  /** Lower boots first, counted together with those of disks; absent: not booted from. */
  readonly bootOrder?: number;
  /** Whether firmware finds a boot ROM on it, without which there is no network boot from BIOS; absent: it finds none. */
  readonly hasBootRom?: boolean;
  /** What the guest's firmware calls it: `eno<N>` in Linux. */
  readonly acpiIndex?: number;
}

/** Name of the channel that libvirt takes for the guest agent's. Source: libvirt formatdomain, "Channel". */
export const AGENT_CHANNEL = "org.qemu.guest_agent.0";

/** The channel that the guest's agent talks through. */
interface AgentChannel {
  /** Where libvirt listens to the agent. */
  readonly socketPath: string;
  /** Of the controller that the channel is on. */
  readonly pciAddress: PciAddress;
}

/** A display, which is seen by VNC. */
interface DisplayDefinition {
  /** Where QEMU listens to viewers. */
  readonly socketPath: string;
  /** As libvirt names it, for example `vga` or `bochs`. */
  readonly model: string;
  /** KiB of video memory; absent: the model's own. */
  readonly memoryKiB?: number;
  readonly pciAddress: PciAddress;
}

/** A watchdog. */
interface WatchdogDefinition {
  readonly alias: string;
  readonly action: "reset" | "poweroff" | "shutdown";
  readonly pciAddress: PciAddress;
}

/** A TPM 2.0 that swtpm plays; not on PCI. */
interface TpmDefinition {
  /** `tpm-tis` or `tpm-crb`. */
  readonly model: string;
  /** Whether its state outlives the domain. */
  readonly isPersistent: boolean;
}

/** An input device: on the controller of its bus, or a PCI device of its own. */
export type InputDefinition =
  | { readonly alias: string; readonly type: "tablet"; readonly bus: "usb"; readonly port: number }
  | {
      readonly alias: string;
      readonly type: "tablet";
      readonly bus: "virtio";
      readonly pciAddress: PciAddress;
    };
