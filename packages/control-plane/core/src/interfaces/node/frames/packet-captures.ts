// SPDX-License-Identifier: Apache-2.0
import type { NetnsHandle } from "../../namespaces.ts";

export interface CapturedLink {
  readonly link: string;
  /** Expression in pcap-filter(7) syntax. The empty string selects all packets. */
  readonly filter: string;
}

export interface PacketCapture {
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

/** Starts packet captures, which end with this process. */
export interface PacketCaptures {
  /**
   * Starts a capture and resolves when the capture runs. `onBytes` receives little-endian pcap-savefile(5) data. `onBytes` is called again
   * only after its previous promise has resolved. Until then, packets are kept in a small buffer; when the buffer is full, they are
   * dropped.
   * @throws AppError with CAPTURE_FILTER_INVALID, PODNET_CAPTURE_FAILED, OS_PROGRAM_MISSING
   */
  start(
    netns: NetnsHandle,
    source: CapturedLink,
    onBytes: (bytes: Uint8Array) => void | Promise<void>,
  ): Promise<PacketCapture>;
  killLeftovers(): Promise<void>;
}
