// SPDX-License-Identifier: Apache-2.0
// What net-agent needs from the kernel to lend a NIC of the node to a pod, and to have it back as it was.
import type { NetnsHandle } from "../namespaces.ts";

/** How a plugin's configuration names a NIC of the node. Source: CNI plugin host-device. */
export type NodeNicName =
  | { readonly by: "name"; readonly name: string }
  | { readonly by: "mac"; readonly mac: string }
  /** Absolute path of its device below /sys/devices. */
  | { readonly by: "kernelPath"; readonly path: string }
  /** PCI address, or name of an auxiliary device. */
  | { readonly by: "device"; readonly id: string };

/** A NIC as it was in the host's namespace. */
export interface NodeNic {
  readonly name: string;
  /** Of that moment; addresses and routes name it. */
  readonly index: number;
  /** As {@link Link.kind}: empty for hardware. */
  readonly kind: string;
  readonly mac: string;
  /** The MAC that its maker gave to it. Absent: the kernel knows none. */
  readonly permanentMac?: string;
  /** Bytes. */
  readonly mtu: number;
  readonly up: boolean;
  /** Text that somebody has set, mostly empty. Source: ip-link(8), alias */
  readonly alias: string;
  /**
   * Its addresses in the kernel's own words, base64, in the order in which they are given, without those that the kernel
   * makes itself.
   * Source: struct ifaddrmsg and its attributes.
   */
  readonly addresses: readonly string[];
  /** Routes of the main table by it, likewise. Source: struct rtmsg and its attributes. */
  readonly routes: readonly string[];
}

/** What became of a NIC that was to be as it was. */
export type RestoredNic =
  /** It is not in that namespace. */
  | { readonly kind: "absent" }
  /** `lacks`: what the kernel refused to give to it again, in words; empty: it is as it was. */
  | { readonly kind: "there"; readonly lacks: readonly string[] };

/** NICs of the node itself. Everything may be repeated. */
export interface NodeNics {
  /** The NIC of that name, as it is now; undefined: there is none. @throws AppError with PODNET_FAILED */
  find(host: NetnsHandle, name: NodeNicName): Promise<NodeNic | undefined>;
  /**
   * Moves a NIC out of a pod, past the plugin that had moved it in; it gets a name that nobody has. Not there is success.
   * @throws AppError with PODNET_FAILED
   */
  bringBack(pod: NetnsHandle, name: string, host: NetnsHandle): Promise<void>;
  /**
   * Gives a NIC that has come back what it lacks of what it was, its name first, whatever it is called now. What it has
   * beside that is left to it. @throws AppError with PODNET_FAILED where the kernel cannot be asked
   */
  restore(host: NetnsHandle, nic: NodeNic): Promise<RestoredNic>;
}
