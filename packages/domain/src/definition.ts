// SPDX-License-Identifier: Apache-2.0
// A domain as Patchbay defines it.
import type { PciAddress } from "./pci/address.ts";

/** A NIC on a tap that exists. */
export interface NicDefinition {
  /** Begins with `ua-`, else libvirt drops it. */
  readonly alias: string;
  readonly mac: string;
  /** Device model; `virtio` for paravirtual. */
  readonly model: string;
  readonly tapName: string;
  /** Bytes. */
  readonly mtu: number;
  readonly linkUp: boolean;
  readonly pciAddress: PciAddress;
}

/** Machine types whose PCI layout Patchbay knows. */
export type MachineFamily = "q35" | "pc";

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
  /** PCIe root ports for later, beside the NICs' own. */
  readonly hotplugPorts: number;
  readonly console: { readonly socketPath: string; readonly logPath: string };
}
