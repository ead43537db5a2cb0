// SPDX-License-Identifier: Apache-2.0
// What the node's door needs to show packets of a guest: a capture of one link of its pod.
import type { NetnsHandle } from "../../namespaces.ts";

/** What is looked at. */
export interface CapturedLink {
  readonly link: string;
  /** Of libpcap (pcap-filter(7)); empty: all packets. */
  readonly filter: string;
}

/** A capture that goes on. */
export interface PacketCapture {
  /** Resolves with the reason when it has ended. */
  readonly ended: Promise<string>;
  /** Ends it; resolves when it is gone. */
  stop(): Promise<void>;
}

/** Starts captures. They end when this process ends. */
export interface PacketCaptures {
  /**
   * Resolves when packets are being captured. `take` gets them as pcap-savefile(5) in little endian, in pieces, the next one
   * when what it has promised is so; what comes meanwhile waits, a little of it, and then is lost.
   * @throws AppError with CAPTURE_FILTER_INVALID, PODNET_CAPTURE_FAILED, OS_PROGRAM_MISSING
   */
  start(
    netns: NetnsHandle,
    what: CapturedLink,
    take: (bytes: Uint8Array) => void | Promise<void>,
  ): Promise<PacketCapture>;
  /** Ends what a process that died before this one has left running. */
  endLeft(): Promise<void>;
}
