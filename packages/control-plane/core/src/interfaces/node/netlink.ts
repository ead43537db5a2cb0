// SPDX-License-Identifier: Apache-2.0
import type { NetnsHandle } from "../namespaces.ts";

export interface NetlinkAnswer {
  /** Messages of the reply without the final one. Source: netlink(7). */
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

/** A comparison of a number in a frame, in network byte order. */
export interface FrameTest {
  readonly offset: number;
  readonly size: 1 | 2 | 4;
  readonly value: number;
}

/**
 * An Internet checksum (RFC 1071) that a link must complete. It covers all bytes from offset `from`. Offset `at` holds the
 * partial sum, which is replaced with the result. Source: struct virtio_net_hdr, linux/virtio_net.h
 */
export interface FrameChecksum {
  readonly from: number;
  readonly at: number;
}

export interface FrameExchange {
  /** Links in one or more namespaces. Listening starts on all before the first frame is sent. */
  readonly ports: readonly { readonly netns: NetnsHandle; readonly link: string }[];
  /** Complete frames, each with the index of its port. */
  readonly sends: readonly {
    readonly port: number;
    readonly frame: Uint8Array;
    /** Unset if the frame's checksums are complete. */
    readonly checksum?: FrameChecksum;
  }[];
  /** A frame is accepted if it passes all tests of one list. Lists for the shortest frames come first. */
  readonly tests: readonly (readonly FrameTest[])[];
  readonly ms: number;
}

export interface ReceivedFrames {
  /** The first 64 frames of each port, each cut to 400 bytes. `isOutgoing`: the port sent the frame. */
  readonly frames: readonly {
    readonly port: number;
    readonly isOutgoing: boolean;
    readonly frame: Uint8Array;
  }[];
  /** `unheard` has the errno(3) of listening on each port, `unsent` that of sending each frame; 0 for success. */
  readonly unheard: readonly number[];
  readonly unsent: readonly number[];
}

/** Exchanges messages and frames with the kernel, without starting programs. Callers may close descriptors without waiting. */
export interface Netlink {
  /**
   * Sends messages in order, each with a request for an acknowledgement or a dump. Stops at the first error and returns one
   * reply for each message sent.
   * @throws AppError with OS_FILE_FAILED when the namespace has no netlink, OS_DESCRIPTOR_STALE when the descriptor is
   * closed or refers to something else
   */
  talk(
    netns: NetnsHandle,
    protocol: NetlinkProtocol,
    messages: readonly Uint8Array[],
  ): Promise<readonly NetlinkAnswer[]>;
  /**
   * Creates a persistent tap, which netlink cannot create.
   * @throws AppError with OS_FILE_FAILED, for example when a link has that name, OS_DESCRIPTOR_STALE
   */
  makeTap(netns: NetnsHandle, tap: NewTap): Promise<void>;
  /**
   * Sends complete frames out of a link.
   * @throws AppError with OS_FILE_FAILED, for example when the link does not exist, OS_DESCRIPTOR_STALE
   */
  sendFrames(netns: NetnsHandle, link: string, frames: readonly Uint8Array[]): Promise<void>;
  /**
   * Sends frames and returns the accepted replies. A filter drops all other frames.
   * @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  exchangeFrames(exchange: FrameExchange): Promise<ReceivedFrames>;
  /**
   * Returns the namespace's network settings whose paths below /proc/sys/net match a pattern, as lines PATH:VALUE.
   * @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  readSettings(netns: NetnsHandle, patterns: readonly string[]): Promise<string>;
}
