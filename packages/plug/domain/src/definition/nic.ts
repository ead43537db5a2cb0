// SPDX-License-Identifier: Apache-2.0
// A NIC of a domain.
import type { PciAddress } from "../pci/address.ts";

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
