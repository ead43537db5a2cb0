// SPDX-License-Identifier: Apache-2.0
// The answer to one watch: what is written, what the client has not taken yet, and its end.
import type { ServerResponse } from "node:http";
import { endUnread } from "../../http/response/send-pieces.ts";
import type { Budget } from "../../limits/budget.ts";

/** A client that is further behind gets no more for the time being. */
const BACKLOG_MAX_BYTES = 256 * 1024;

/** So much is handed to a connection at once: TLS makes a copy of it. */
const PIECE_BYTES = 64 * 1024;

/** One open watch. */
export class WatchStream {
  readonly #response: ServerResponse;
  readonly #ended = new AbortController();
  /** What its user may leave lying. */
  readonly #waiting: Budget;
  /** Bytes of this stream that are spent of it. */
  #spent = 0;
  /** What is not handed to the connection yet. */
  readonly #queue: Buffer[] = [];
  #queuedBytes = 0;
  #isWaiting = false;

  constructor(
    response: ServerResponse,
    limits: { readonly waiting: Budget; readonly unreadMs: number },
  ) {
    this.#response = response;
    this.#waiting = limits.waiting;
    response.on("close", () => {
      this.#ended.abort();
      this.#queue.length = 0;
      this.#giveBack(this.#spent);
    });
    if (response.destroyed) {
      // The client left while it was asked who it is.
      this.#ended.abort();
      return;
    }
    response.writeHead(200, { "content-type": "application/json", "transfer-encoding": "chunked" });
    response.flushHeaders();
    endUnread(response, limits.unreadMs);
  }

  /** Aborted when it has ended, whoever ended it. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Whether the client, or its user by other watches, has to read before it should be sent more. */
  get isBehind(): boolean {
    return this.#isFull || this.#waiting.isSpent;
  }

  get #isFull(): boolean {
    return this.#queuedBytes + this.#response.writableLength > BACKLOG_MAX_BYTES;
  }

  /** Writes; what is long is handed to the connection piece by piece, so that watches share it as long as they can. */
  write(text: string | Buffer): void {
    if (text.length === 0 || this.signal.aborted) {
      return;
    }
    const bytes = typeof text === "string" ? Buffer.from(text) : text;
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      this.#queue.push(bytes.subarray(at, at + PIECE_BYTES));
    }
    this.#queuedBytes += bytes.length;
    this.#spent += bytes.length;
    this.#waiting.spend(bytes.length);
    this.#pump();
  }

  /** Hands over what the connection takes without holding it. */
  #pump(): void {
    while (this.#queue.length > 0 && !this.#response.writableNeedDrain) {
      this.#handOver();
    }
    if (this.#queue.length > 0 && !this.#isWaiting) {
      this.#isWaiting = true;
      this.#response.once("drain", () => {
        this.#isWaiting = false;
        this.#pump();
      });
    }
  }

  #handOver(): void {
    const piece = this.#queue.shift();
    if (piece !== undefined && !this.#response.destroyed) {
      this.#queuedBytes -= piece.length;
      this.#response.write(piece, () => {
        this.#giveBack(piece.length);
      });
    }
  }

  /** Does `work`, which writes about so many bytes, when the client has taken what was written before and its user may be sent them. Not done where the watch ends before. */
  async withRoom(bytes: number, work: () => Promise<void>): Promise<void> {
    await this.drained();
    if (!(await this.#waiting.reserve(bytes, this.signal))) {
      return;
    }
    try {
      await work();
    } finally {
      // What was written is spent by itself.
      this.#waiting.giveBack(bytes);
    }
  }

  /** What was written late, or never, is given back once. */
  #giveBack(bytes: number): void {
    const given = Math.min(bytes, this.#spent);
    this.#spent -= given;
    this.#waiting.giveBack(given);
  }

  /** Resolves when the client has taken what was written, or the watch has ended. */
  async drained(): Promise<void> {
    while (this.#queue.length > 0 || this.#response.writableNeedDrain) {
      if (this.signal.aborted) {
        return;
      }
      await this.#drain();
    }
  }

  async #drain(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const wake = () => {
      resolve(undefined);
    };
    this.#response.once("drain", wake);
    this.signal.addEventListener("abort", wake, { once: true });
    await promise;
    this.#response.off("drain", wake);
    this.signal.removeEventListener("abort", wake);
  }

  /** Ends the answer as HTTP does; a client that does not read is cut off. */
  end(): void {
    this.#ended.abort();
    if (this.#isFull) {
      this.#response.destroy();
    } else {
      while (this.#queue.length > 0) {
        this.#handOver();
      }
      this.#response.end();
    }
  }
}
