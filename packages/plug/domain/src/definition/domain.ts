// SPDX-License-Identifier: Apache-2.0
// A domain as Patchbay defines it.
import type { PciAddress } from "../pci/address.ts";
import type {
  AgentChannel,
  DisplayDefinition,
  InputDefinition,
  TpmDefinition,
  WatchdogDefinition,
} from "./devices.ts";
import type { ControllerDefinition, DiskDefinition } from "./disk.ts";
import type {
  ClockDefinition,
  CpuDefinition,
  FeaturesDefinition,
  FirmwareDefinition,
  IdentityDefinition,
  KernelDefinition,
} from "./machine.ts";
import type { NicDefinition } from "./nic.ts";

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
