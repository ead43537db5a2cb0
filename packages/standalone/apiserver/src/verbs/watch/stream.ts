// SPDX-License-Identifier: Apache-2.0
// Writes the response of one watch, limits the unread data of the response, and ends the watch.
import type { ServerResponse } from "node:http";
import type { SharePool } from "@patchbay/base";
import { disconnectWhenUnread } from "../../http/response/send-pieces.ts";
import type { TimeSlice } from "../../limits/fair-queue.ts";

/** Maximum size of unread data. Above this limit, the watch sends no new events until the client has read the data. */
const BACKLOG_MAX_BYTES = 256 * 1024;

/** Maximum size of one write to the connection. It limits memory, because TLS copies the bytes of each write. */
const PIECE_BYTES = 64 * 1024;

export class WatchStream {
  readonly #response: ServerResponse;
  readonly #endController = new AbortController();
  readonly #unsentEvents: SharePool;
  readonly #shareKey: string;
  #spentBytes = 0;
  readonly #queue: Buffer[] = [];
  #queuedBytes = 0;
  readonly #timeSlice: TimeSlice;
  #nextPiece: Promise<void> | undefined;

  constructor(
    response: ServerResponse,
    limits: {
      readonly unsentEvents: SharePool;
      readonly shareKey: string;
      readonly unreadMs: number;
      readonly timeSlice: TimeSlice;
    },
  ) {
    this.#response = response;
    this.#unsentEvents = limits.unsentEvents;
    this.#shareKey = limits.shareKey;
    this.#timeSlice = limits.timeSlice;
    response.on("close", () => {
      this.#endController.abort();
      this.#queue.length = 0;
      this.#refund(this.#spentBytes);
    });
    if (response.destroyed) {
      // The client disconnected before the watch started, for example during authentication.
      this.#endController.abort();
      return;
    }
    response.writeHead(200, { "content-type": "application/json", "transfer-encoding": "chunked" });
    response.flushHeaders();
    disconnectWhenUnread(response, limits.unreadMs);
  }

  get signal(): AbortSignal {
    return this.#endController.signal;
  }

  /** Whether this client, or other watches, must read data before more events are sent. */
  get isBehind(): boolean {
    return this.#isFull || this.#unsentEvents.findShortage(this.#shareKey) !== undefined;
  }

  get #isFull(): boolean {
    return this.#queuedBytes + this.#response.writableLength > BACKLOG_MAX_BYTES;
  }

  /** Queues the text and writes it in pieces. The pieces are not copied, so that watches can share a queued buffer. */
  write(text: string | Buffer): void {
    if (text.length === 0 || this.signal.aborted) {
      return;
    }
    const bytes = typeof text === "string" ? Buffer.from(text) : text;
    for (let offset = 0; offset < bytes.length; offset += PIECE_BYTES) {
      this.#queue.push(bytes.subarray(offset, offset + PIECE_BYTES));
    }
    this.#queuedBytes += bytes.length;
    this.#spentBytes += bytes.length;
    this.#unsentEvents.spend(this.#shareKey, bytes.length);
    if (this.#nextPiece === undefined) this.#pump();
  }

  #pump(): void {
    if (!this.#response.writableNeedDrain) {
      this.#writePiece();
    }
    this.#nextPiece = this.#queue.length > 0 ? this.#pumpLater() : undefined;
  }

  /** Continues when the client has read, and its user may use the thread. */
  async #pumpLater(): Promise<void> {
    if (this.#response.writableNeedDrain) {
      await this.#drain();
    }
    await this.#timeSlice.waitForNext();
    this.#pump();
  }

  #writePiece(): void {
    const piece = this.#queue.shift();
    if (piece !== undefined && !this.#response.destroyed) {
      this.#queuedBytes -= piece.length;
      this.#response.write(piece, () => {
        this.#refund(piece.length);
      });
    }
  }

  /** Waits until the client has read enough, then runs `work`, which writes about `bytes` bytes. Skips `work` if the watch ends. */
  async withRoom(bytes: number, work: () => Promise<void>): Promise<void> {
    await this.waitUntilDrained();
    const release = await this.#unsentEvents.acquire(this.#shareKey, bytes, this.signal);
    if (release === undefined) {
      return;
    }
    try {
      await work();
    } finally {
      // Releases the estimated bytes, because `write` has counted the actual bytes.
      release();
    }
  }

  /** Returns bytes to the pool. Ignores bytes that were already returned when the response closed. */
  #refund(bytes: number): void {
    const refundedBytes = Math.min(bytes, this.#spentBytes);
    this.#spentBytes -= refundedBytes;
    this.#unsentEvents.release(this.#shareKey, refundedBytes);
  }

  /** Resolves when all data is written or the watch has ended. */
  async waitUntilDrained(): Promise<void> {
    while (this.#queue.length > 0 || this.#response.writableNeedDrain) {
      if (this.signal.aborted) {
        return;
      }
      await (this.#nextPiece ?? this.#drain());
    }
  }

  async #drain(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const onWake = () => {
      resolve(undefined);
    };
    this.#response.once("drain", onWake);
    this.signal.addEventListener("abort", onWake, { once: true });
    await promise;
    this.#response.off("drain", onWake);
    this.signal.removeEventListener("abort", onWake);
  }

  /** Writes the queued events and ends the response. If the client has too much unread data, closes the connection instead. */
  end(): void {
    this.#endController.abort();
    if (this.#isFull) {
      this.#response.destroy();
    } else {
      while (this.#queue.length > 0) {
        this.#writePiece();
      }
      this.#response.end();
    }
  }
}
