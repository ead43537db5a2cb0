// SPDX-License-Identifier: Apache-2.0
// Keeps a capture within its bytes, and whole: a packet is in it or not. Source: pcap-savefile(5). Pure.
import { joinedBytes } from "../joined-bytes.ts";

/** Of the file, and of each packet, bytes. */
const FILE_HEADER = 24;
const PACKET_HEADER = 16;
/** In the packet's header: how many bytes of it follow, in the byte order of who writes. */
const LENGTH_AT = 8;

/** What may go on, of what has come so far. */
export interface Passed {
  readonly bytes: readonly Uint8Array[];
  /** Nothing more is taken. */
  readonly isFull: boolean;
}

/** Of one capture, as a program of this machine writes it: in little endian, as x86 and arm64 do. */
export class WholePackets {
  #left: number;
  #waiting: Uint8Array = new Uint8Array(0);
  #hasHeader = false;

  /** `most`: how long the capture may be, bytes. */
  constructor(most: number) {
    this.#left = most;
  }

  /** What may go on now that this has come. */
  take(bytes: Uint8Array): Passed {
    this.#waiting = joinedBytes([this.#waiting, bytes]);
    const passed: Uint8Array[] = [];
    for (;;) {
      const length = this.#nextLength();
      if (length === undefined || length > this.#waiting.length) {
        return { bytes: passed, isFull: false };
      }
      if (length > this.#left) return { bytes: passed, isFull: true };
      passed.push(this.#waiting.subarray(0, length));
      this.#waiting = this.#waiting.subarray(length);
      this.#left -= length;
      this.#hasHeader = true;
    }
  }

  /** Of the header of the file, or of the next packet with its own; undefined: not known yet. */
  #nextLength(): number | undefined {
    if (!this.#hasHeader) return FILE_HEADER;
    if (this.#waiting.length < PACKET_HEADER) return undefined;
    const { buffer, byteOffset } = this.#waiting;
    const length = new DataView(buffer, byteOffset).getUint32(LENGTH_AT, true);
    return PACKET_HEADER + length;
  }
}
