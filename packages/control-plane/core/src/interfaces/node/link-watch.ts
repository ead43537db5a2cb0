// SPDX-License-Identifier: Apache-2.0
import type { LinkCounts } from "../../metrics/traffic.ts";
import type { NetnsHandle } from "../namespaces.ts";
import type { FrameTest } from "./netlink.ts";

/** Added, removed or changed link. Changes of addresses and forwarding entries count, too. */
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
   * Reports link changes: the first at once, later ones within a second.
   * @throws AppError with OS_DESCRIPTOR_STALE, or with OS_FILE_FAILED when the limit of watched namespaces is reached
   */
  watch(
    netns: NetnsHandle,
    onChange: (links: LinkChanges) => void,
    signal: AbortSignal,
  ): WatchedLinks;
}

/** Frames pass that meet all tests of one list. Lists must test the EtherType first, because tests beyond a frame's end drop the frame. */
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
   * Reports frames: the first at once, later ones within a second. Drops frames beyond 64 per report. Reports nothing after the link's
   * deletion.
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
