// SPDX-License-Identifier: Apache-2.0
import type { LinkCounts } from "../../metrics/traffic.ts";
import type { NetnsHandle } from "../namespaces.ts";
import type { FrameTest } from "./netlink.ts";

/** A link that was added, removed or changed. Changes of its addresses and forwarding entries count as changes of the link. */
export interface ChangedLink {
  readonly index: number;
  readonly name?: string;
}

/** Changed links without duplicates. `unknown`: events were lost, so any link may have changed. */
export type LinkChanges = readonly ChangedLink[] | "unknown";

export interface WatchedLinks {
  /** Discards pending events. Callers must read the links afterwards, because `onChange` does not report the discarded changes. */
  discardEvents(): void;
}

/** Equivalent to: `ip monitor link address neigh`. */
export interface LinkWatch {
  /**
   * Calls `onChange` after link changes until `signal` aborts: immediately for the first change, and within a second for later changes.
   * @throws AppError with OS_DESCRIPTOR_STALE, or with OS_FILE_FAILED when the limit of watched namespaces is reached
   */
  watch(
    netns: NetnsHandle,
    onChange: (links: LinkChanges) => void,
    signal: AbortSignal,
  ): WatchedLinks;
}

/**
 * Frames that the kernel reports. A frame is reported if it meets all tests of at least one list. Lists are tried in order, and a test
 * beyond the end of a frame drops the frame. Each list must therefore test the EtherType first.
 */
export interface FrameFilter {
  /** Tests of frames that arrive on the link. */
  readonly incoming: readonly (readonly FrameTest[])[];
  /** Tests of frames that are sent through the link. */
  readonly outgoing: readonly (readonly FrameTest[])[];
}

export interface WatchedFrame {
  readonly isOutgoing: boolean;
  /** First 400 bytes of the frame. */
  readonly frame: Uint8Array;
}

export interface WatchedFrames {
  /** Replaces the filter. Frames that the kernel has already accepted are still reported. @throws AppError with OS_FILE_FAILED */
  setFilter(filter: FrameFilter): void;
}

/** Watches frames of a link with a packet socket, whose filter runs in the kernel. */
export interface FrameWatch {
  /**
   * Until aborted, calls `onFrames` with frames that pass the filter: immediately for the first frames, and within a second for later
   * frames. Each call reports at most 64 frames; the rest wait for the next call. If frames arrive faster than they are reported, the
   * kernel drops those that do not fit into the socket's buffer. Reports nothing once the link is deleted.
   * @throws AppError with OS_FILE_FAILED if the link does not exist, OS_DESCRIPTOR_STALE
   */
  watch(
    link: { readonly netns: NetnsHandle; readonly name: string; readonly filter: FrameFilter },
    onFrames: (frames: readonly WatchedFrame[]) => void,
    signal: AbortSignal,
  ): WatchedFrames;
}

export interface LinkCounters {
  /** Returns the counters of at most 1,000 links, in the kernel's order. @throws AppError with OS_FILE_FAILED, OS_DESCRIPTOR_STALE */
  read(netns: NetnsHandle): Promise<readonly LinkCounts[]>;
}
