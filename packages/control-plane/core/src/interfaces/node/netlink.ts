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
 * Condition that a frame contains the big-endian number `value` of `size` bytes at `offset`. Offsets from 0xfffff000 on are the kernel's
 * facts about the frame. Source: linux/filter.h, SKF_AD_OFF
 */
export interface FrameTest {
  readonly offset: number;
  readonly size: 1 | 2 | 4;
  readonly value: number;
}

/**
 * An Internet checksum (RFC 1071) that the link must complete. The checksum covers all bytes from offset `from`. The link
 * replaces the partial sum at offset `at` with the result. Source: struct virtio_net_hdr, linux/virtio_net.h
 */
export interface FrameChecksum {
  readonly from: number;
  readonly at: number;
}

export interface FrameExchange {
  /** Links on which frames are sent and received. Listening starts on all links before the first frame is sent. */
  readonly ports: readonly { readonly netns: NetnsHandle; readonly link: string }[];
  /** Ethernet frames to send. `port` is an index of `ports`. */
  readonly sends: readonly {
    readonly port: number;
    readonly frame: Uint8Array;
    /** Checksum that the link must complete. Unset if all checksums are complete. */
    readonly checksum?: FrameChecksum;
  }[];
  /**
   * A frame passes if it meets all tests of at least one list. Lists are tried in order, and a test beyond the end of a frame drops the
   * frame. Callers must therefore put the lists for short frames first.
   */
  readonly tests: readonly (readonly FrameTest[])[];
  readonly ms: number;
}

export interface ReceivedFrames {
  /** First 64 frames of each port, truncated to 400 bytes. `isOutgoing`: the frame was sent through the port. */
  readonly frames: readonly {
    readonly port: number;
    readonly isOutgoing: boolean;
    readonly frame: Uint8Array;
  }[];
  /** errno(3) values, 0 for success. `unheard`: for each port, the result of receiving. `unsent`: for each frame, the result of sending. */
  readonly unheard: readonly number[];
  readonly unsent: readonly number[];
}

/** Exchanges messages and frames with the kernel, without starting programs. Callers may close descriptors before a call completes. */
export interface Netlink {
  /**
   * Sends messages in order. Each message must request an acknowledgement or a dump. Stops at the first error and returns one
   * reply for each sent message.
   * @throws AppError with OS_FILE_FAILED when the namespace has no netlink, OS_DESCRIPTOR_STALE when the descriptor is closed
   * or refers to another file
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
