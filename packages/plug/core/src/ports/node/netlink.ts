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

/** A number in a frame, in the order of the network. */
export interface FrameTest {
  /** Where it begins, bytes. */
  readonly offset: number;
  /** Bytes. */
  readonly size: 1 | 2 | 4;
  readonly value: number;
}

/**
 * A checksum of one's complement (RFC 1071) that a link on the way is to make: of all bytes from `from` on, with what stands at
 * `at`, which is where it goes. Source: struct virtio_net_hdr, linux/virtio_net.h
 */
export interface FrameChecksum {
  readonly from: number;
  readonly at: number;
}

/** Frames of our own, and where frames are heard meanwhile. */
export interface FrameExchange {
  /** Links, in one namespace or several, all of which are heard before the first frame is sent. */
  readonly ports: readonly { readonly netns: NetnsHandle; readonly link: string }[];
  /** Frames as they are, with all of their heads, by the number of the port that each leaves by. */
  readonly sends: readonly {
    readonly port: number;
    readonly frame: Uint8Array;
    /** Absent: the frame has its checksums. */
    readonly checksum?: FrameChecksum;
  }[];
  /** What passes all of one of these lists is heard, and nothing else; the lists for the shortest frames come first. */
  readonly tests: readonly (readonly FrameTest[])[];
  /** How long is listened, milliseconds. */
  readonly ms: number;
}

/** What became of an exchange. */
export interface HeardFrames {
  /** The first 64 of each port, of each the first 400 bytes; `isOutgoing`: it left by that port. */
  readonly frames: readonly {
    readonly port: number;
    readonly isOutgoing: boolean;
    readonly frame: Uint8Array;
  }[];
  /** Of each port why nothing was heard or sent there, and of each frame why it was not sent: errno(3); 0: none. */
  readonly unheard: readonly number[];
  readonly unsent: readonly number[];
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
   * Sends frames and hears those that are asked for; what is not on the list is not read.
   * @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  exchangeFrames(exchange: FrameExchange): Promise<HeardFrames>;
  /**
   * Settings of the network, of those of that namespace, whose paths below /proc/sys/net match: lines PATH:VALUE.
   * @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  readSettings(netns: NetnsHandle, patterns: readonly string[]): Promise<string>;
}
