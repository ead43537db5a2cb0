// SPDX-License-Identifier: Apache-2.0
import type { PciAddress, PciBridge, RootPort } from "./pci/addresses.ts";

/** Definition of a libvirt domain. File paths are paths in the launcher. All PCI devices have explicit addresses. */
export interface DomainDefinition {
  readonly name: string;
  /** Must be the same in every definition of this domain. libvirt rejects a definition with the same name and another UUID. */
  readonly uuid: string;
  readonly accelerator: "kvm" | "qemu";
  /** libvirt's name of the machine type, for example `q35` or `pc-i440fx-7.2`. */
  readonly machine: string;
  readonly vcpus: number;
  readonly memoryMiB: number;
  /** Whether QEMU can share guest memory with other processes (memfd). */
  readonly sharesMemory: boolean;
  readonly cpu: CpuDefinition;
  readonly firmware: FirmwareDefinition;
  /** Kernel that QEMU boots directly. If unset, the firmware boots from a disk or NIC. */
  readonly kernel?: KernelDefinition;
  readonly identity: IdentityDefinition;
  readonly features: FeaturesDefinition;
  readonly clock: ClockDefinition;
  /** Number of I/O threads. Disks and controllers reference a thread by its number, from 1. */
  readonly ioThreads: number;
  /** Controllers, except PCI controllers and controllers that the machine type includes. */
  readonly controllers: readonly ControllerDefinition[];
  readonly disks: readonly DiskDefinition[];
  readonly nics: readonly NicDefinition[];
  /** Disables the MSI-X vectors of virtio NICs. If unset, QEMU chooses the number of vectors. */
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
      readonly usesSerial: boolean;
    }
  | {
      readonly kind: "efi";
      /** Whether the firmware boots only signed code. Requires `features.smm` (System Management Mode). */
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

/** Entry of the CPU feature list. Source: libvirt formatdomain, "CPU model and topology". */
interface CpuFeature {
  readonly name: string;
  readonly policy: "force" | "require" | "optional" | "disable" | "forbid";
}

export interface CpuDefinition {
  readonly topology?: {
    readonly sockets: number;
    readonly cores: number;
    readonly threads: number;
  };
  /** If unset, QEMU's default CPU model is used. */
  readonly model?:
    | { readonly mode: "host-model" | "host-passthrough" | "maximum" }
    | { readonly mode: "custom"; readonly name: string };
  readonly features: readonly CpuFeature[];
}

/** Timer of the guest. Source: libvirt formatdomain, "Time keeping". */
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

/** Hypervisor features. QEMU's default applies to each unset feature. */
interface FeaturesDefinition {
  readonly acpi: boolean;
  readonly apic: boolean;
  readonly apicEndOfInterrupt?: boolean;
  readonly smm?: boolean;
  readonly kvmHidden?: boolean;
  readonly pvspinlock?: boolean;
}

/** SMBIOS data, except the UUID, which equals the domain's UUID. Source: DMTF DSP0134 sections 7.2 and 7.4. */
export interface IdentityDefinition {
  readonly serial?: string;
  readonly chassis?: Readonly<
    Partial<Record<"asset" | "manufacturer" | "serial" | "sku" | "version", string>>
  >;
}

/** Backing of a disk. The format is set explicitly, because a guest can write the header of another format into a raw image. */
export interface DiskSource {
  readonly kind: "file" | "block";
  readonly path: string;
  readonly format: "raw" | "qcow2";
}

export type DiskAddress =
  | { readonly kind: "pci"; readonly address: PciAddress }
  | { readonly kind: "drive"; readonly controller: number; readonly unit: number };

/** Block sizes that the disk reports to the guest, in bytes. */
export interface BlockSizes {
  readonly logical: number;
  readonly physical: number;
  readonly discardGranularity?: number;
}

export interface DiskDefinition {
  /** Must begin with `ua-`, because libvirt discards any other alias. */
  readonly alias: string;
  readonly source: DiskSource;
  readonly device: "disk" | "cdrom" | "lun";
  readonly bus: "virtio" | "scsi" | "sata";
  /** Unique device name by which libvirt orders disks, for example `vda` on virtio, `sda` on scsi and sata. */
  readonly target: string;
  readonly address: DiskAddress;
  readonly readOnly: boolean;
  readonly isTrayOpen?: boolean;
  readonly isShareable?: boolean;
  readonly serial?: string;
  /** If unset, QEMU uses writeback. */
  readonly cache?: "none" | "writethrough" | "writeback" | "directsync";
  /** If unset, QEMU uses threads. */
  readonly io?: "native" | "threads";
  readonly discard?: "unmap" | "ignore";
  readonly errorPolicy?: "stop" | "ignore" | "report" | "enospace";
  readonly blockSize?: BlockSizes;
  /** Position in the boot order of disks and NICs, lowest first. If unset, the guest does not boot from the disk. */
  readonly bootOrder?: number;
  /** Number of the I/O thread, from 1; for virtio disks only. */
  readonly ioThread?: number;
  readonly queues?: number;
}

/** Controller that libvirt does not add automatically. */
export interface ControllerDefinition {
  readonly type: "scsi" | "sata" | "usb";
  readonly index: number;
  readonly pciAddress: PciAddress;
  /** Number of the I/O thread, from 1; for SCSI controllers only. */
  readonly ioThread?: number;
}

/** Name of a tap, which must exist before the domain is defined or the NIC is attached. */
export interface TapSource {
  readonly tapName: string;
}

/** Path of a vhost-user socket, on which a process on the node must listen before QEMU connects. */
export interface SocketSource {
  readonly socketPath: string;
}

export type NicDefinition = NicCommons & (TapSource | SocketSource);

interface NicCommons {
  /** Must begin with `ua-`, because libvirt discards any other alias. */
  readonly alias: string;
  readonly mac: string;
  readonly model: string;
  /** Queue pairs, at least 1. */
  readonly queues: number;
  /** MTU that QEMU reports to the guest, in bytes. 0 if QEMU reports no MTU. */
  readonly mtu: number;
  readonly linkUp: boolean;
  readonly pciAddress: PciAddress;
  /** Position in the boot order of disks and NICs, lowest first. If unset, the guest does not boot from the NIC. */
  readonly bootOrder?: number;
  /** Whether the NIC has a boot ROM, which a network boot with BIOS requires. */
  readonly hasBootRom?: boolean;
  /** Index from which Linux derives the NIC's name, `eno<N>`. */
  readonly acpiIndex?: number;
}

/** Channel name by which libvirt recognizes the guest agent. Source: libvirt formatdomain, "Channel". */
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

interface TpmDefinition {
  readonly model: string;
  readonly isPersistent: boolean;
}

export type InputDefinition =
  | { readonly alias: string; readonly type: "tablet"; readonly bus: "usb"; readonly port: number }
  | {
      readonly alias: string;
      readonly type: "tablet";
      readonly bus: "virtio";
      readonly pciAddress: PciAddress;
    };
