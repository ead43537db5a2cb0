// SPDX-License-Identifier: Apache-2.0
import type { NetnsHandle } from "../../namespaces.ts";

export interface CapturedLink {
  readonly link: string;
  /** pcap-filter(7) expression. Empty captures all packets. */
  readonly filter: string;
}

export interface PacketCapture {
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

/** Starts captures of packets. Captures end when this process ends. */
export interface PacketCaptures {
  /**
   * Resolves when the capture has started. `onBytes` receives pcap-savefile(5) data in little endian. It gets the next piece
   * when its promise has resolved. Until then packets fill a small buffer and are lost once it is full.
   * @throws AppError with CAPTURE_FILTER_INVALID, PODNET_CAPTURE_FAILED, OS_PROGRAM_MISSING
   */
  start(
    netns: NetnsHandle,
    source: CapturedLink,
    onBytes: (bytes: Uint8Array) => void | Promise<void>,
  ): Promise<PacketCapture>;
  killLeftovers(): Promise<void>;
}
