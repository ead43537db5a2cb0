// SPDX-License-Identifier: Apache-2.0
// Devices of a domain that are neither NICs nor disks.
import type { PciAddress } from "../pci/address.ts";

/** Name of the channel that libvirt takes for the guest agent's. Source: libvirt formatdomain, "Channel". */
export const AGENT_CHANNEL = "org.qemu.guest_agent.0";

/** The channel that the guest's agent talks through. */
export interface AgentChannel {
  /** Where libvirt listens to the agent. */
  readonly socketPath: string;
  /** Of the controller that the channel is on. */
  readonly pciAddress: PciAddress;
}

/** A display, which is seen by VNC. */
export interface DisplayDefinition {
  /** Where QEMU listens to viewers. */
  readonly socketPath: string;
  /** As libvirt names it, for example `vga` or `bochs`. */
  readonly model: string;
  /** KiB of video memory; absent: the model's own. */
  readonly memoryKiB?: number;
  readonly pciAddress: PciAddress;
}

/** A watchdog. */
export interface WatchdogDefinition {
  readonly alias: string;
  readonly action: "reset" | "poweroff" | "shutdown";
  readonly pciAddress: PciAddress;
}

/** A TPM 2.0 that swtpm plays; not on PCI. */
export interface TpmDefinition {
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
