// SPDX-License-Identifier: Apache-2.0
import type { NetnsHandle } from "../namespaces.ts";

export interface NetlinkAnswer {
  /** Messages of the reply, without the final NLMSG_ERROR or NLMSG_DONE. Source: netlink(7). */
  readonly data: Uint8Array;
  /** Positive error number; 0 for success. Source: errno(3). */
  readonly errno: number;
}

/** Source: linux/netlink.h, NETLINK_ROUTE and NETLINK_NETFILTER. */
export type NetlinkProtocol = "route" | "netfilter";

export interface NewTap {
  readonly name: string;
  readonly owner: number;
  readonly isMultiQueue: boolean;
}

/**
 * Condition on `size` big-endian bytes at `offset`. Offsets from 0xfffff000 denote kernel facts about the frame. Source: linux/filter.h,
 * SKF_AD_OFF
 */
export interface FrameTest {
  readonly offset: number;
  readonly size: 1 | 2 | 4;
  readonly value: number;
}

/**
 * Internet checksum of bytes from `from`. The link completes the partial sum at `at`. Source: RFC 1071; struct virtio_net_hdr,
 * linux/virtio_net.h
 */
export interface FrameChecksum {
  readonly from: number;
  readonly at: number;
}

export interface FrameExchange {
  /** Links for sending and receiving. Listening starts on all links before the first frame is sent. */
  readonly ports: readonly { readonly netns: NetnsHandle; readonly link: string }[];
  /** Ethernet frames to send. `port` is an index of `ports`. */
  readonly sends: readonly {
    readonly port: number;
    readonly frame: Uint8Array;
    /** Checksum that the link must complete. Unset if all checksums are complete. */
    readonly checksum?: FrameChecksum;
  }[];
  /** A frame must meet all tests of one list. Lists for short frames come first, because tests beyond a frame's end drop the frame. */
  readonly tests: readonly (readonly FrameTest[])[];
  readonly ms: number;
}

export interface ReceivedFrames {
  /** First 64 frames of each port, truncated to 400 bytes. `isOutgoing` frames left the port. */
  readonly frames: readonly {
    readonly port: number;
    readonly isOutgoing: boolean;
    readonly frame: Uint8Array;
  }[];
  /** errno(3) values, 0 for success: `unheard` by port, and `unsent` by frame. */
  readonly unheard: readonly number[];
  readonly unsent: readonly number[];
}

/** Exchanges messages and frames with the kernel. Callers may close descriptors before a call completes. */
export interface Netlink {
  /**
   * Each message must request an acknowledgement or a dump. The first error ends the exchange.
   * @throws AppError with OS_FILE_FAILED when the namespace has no netlink, OS_DESCRIPTOR_STALE
   * when the descriptor is closed or refers to another file
   */
  exchangeMessages(
    netns: NetnsHandle,
    protocol: NetlinkProtocol,
    messages: readonly Uint8Array[],
  ): Promise<readonly NetlinkAnswer[]>;
  /** Creates a persistent tap. @throws AppError with OS_DESCRIPTOR_STALE, or OS_FILE_FAILED, for example when the name is in use */
  makeTap(netns: NetnsHandle, tap: NewTap): Promise<void>;
  /** Sends complete frames out of a link. @throws AppError with OS_DESCRIPTOR_STALE, or OS_FILE_FAILED, for example for a missing link */
  sendFrames(netns: NetnsHandle, link: string, frames: readonly Uint8Array[]): Promise<void>;
  /** Sends frames and returns the received frames that pass `tests`. @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE */
  exchangeFrames(exchange: FrameExchange): Promise<ReceivedFrames>;
  /**
   * Returns the namespace's network settings whose paths below /proc/sys/net match a pattern, as lines PATH:VALUE.
   * @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  readSettings(netns: NetnsHandle, patterns: readonly string[]): Promise<string>;
}
