// SPDX-License-Identifier: Apache-2.0
// Questions to the kernel over netlink, in the network namespace of a pod, and frames of nobody in it.
import type { NetnsHandle } from "../namespaces.ts";

/** What the kernel said to one message. */
export interface NetlinkAnswer {
  /** Its messages, one behind the other, without the one that ends them. Source: netlink(7). */
  readonly data: Uint8Array;
  /** Why the message was refused, positive; 0: it was not. Source: errno(3). */
  readonly errno: number;
}

/** Part of the kernel that is spoken to. Source: linux/netlink.h, NETLINK_ROUTE and NETLINK_NETFILTER. */
export type NetlinkProtocol = "route" | "netfilter";

/** A tap that is to be made. */
export interface NewTap {
  readonly name: string;
  /** User and group that may open it. */
  readonly owner: number;
  /** Whether it can be opened several times, once for each pair of queues. */
  readonly takesMany: boolean;
}

/** Speaks netlink; takes no program. Descriptors may be closed as soon as a call was made. */
export interface Netlink {
  /**
   * Says messages in order, each of which asks for an acknowledgement or a dump, and stops at the first that is refused:
   * as many answers as messages were said.
   * @throws AppError with OS_FILE_FAILED when the kernel cannot be asked in that namespace, OS_DESCRIPTOR_STALE when the
   * descriptor is closed or names something else
   */
  talk(
    netns: NetnsHandle,
    protocol: NetlinkProtocol,
    messages: readonly Uint8Array[],
  ): Promise<readonly NetlinkAnswer[]>;
  /**
   * Makes a tap, which stays; netlink knows how to tell of one only.
   * @throws AppError with OS_FILE_FAILED, also when there is a link of that name, OS_DESCRIPTOR_STALE
   */
  makeTap(netns: NetnsHandle, tap: NewTap): Promise<void>;
  /**
   * Sends frames out of a link, as they are, with all of their heads.
   * @throws AppError with OS_FILE_FAILED, also when there is no such link, OS_DESCRIPTOR_STALE
   */
  sendFrames(netns: NetnsHandle, link: string, frames: readonly Uint8Array[]): Promise<void>;
  /**
   * Settings of the network, of those of that namespace, whose paths below /proc/sys/net match: lines PATH:VALUE.
   * @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  readSettings(netns: NetnsHandle, patterns: readonly string[]): Promise<string>;
}
