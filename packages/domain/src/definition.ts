// SPDX-License-Identifier: Apache-2.0
// A domain as Patchbay defines it.
import type { PciAddress } from "./pci/address.ts";

/** A NIC of the domain; its tap is there before the domain is defined or the NIC attached. */
export interface NicDefinition {
  /** Begins with `ua-`, else libvirt drops it. */
  readonly alias: string;
  readonly mac: string;
  /** Device model; `virtio` for paravirtual. */
  readonly model: string;
  /** Pairs of queues, at least 1. */
  readonly queues: number;
  readonly tapName: string;
  /** Bytes. */
  readonly mtu: number;
  readonly linkUp: boolean;
  readonly pciAddress: PciAddress;
  /** Lower boots first; absent: not booted from. */
  readonly bootOrder?: number;
  /** What the guest's firmware calls it: `eno<N>` in Linux. */
  readonly acpiIndex?: number;
}

/** A PCIe root port: its controller index is the number of the bus behind it. */
export interface RootPort {
  readonly index: number;
  readonly address: PciAddress;
  readonly multifunction: boolean;
}

/** Machine types whose PCI layout Patchbay knows. */
export type MachineFamily = "q35" | "pc";

/** Name of the channel that libvirt takes for the guest agent's. Source: libvirt formatdomain, "Channel". */
export const AGENT_CHANNEL = "org.qemu.guest_agent.0";

/** The channel that the guest's agent talks through. */
interface AgentChannel {
  /** Where libvirt listens to the agent. */
  readonly socketPath: string;
  /** Of the controller that the channel is on. */
  readonly pciAddress: PciAddress;
}

/** A domain that boots a kernel directly. Paths are those in the launcher. */
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
  readonly kernel: { readonly path: string; readonly initrdPath?: string; readonly args?: string };
  readonly nics: readonly NicDefinition[];
  /** PCIe root ports, those of the NICs included. */
  readonly ports: readonly RootPort[];
  /** Whether the guest's memory can be shared with other processes (memfd). */
  readonly sharesMemory: boolean;
  readonly agent?: AgentChannel;
  readonly console: { readonly socketPath: string; readonly logPath: string };
}
