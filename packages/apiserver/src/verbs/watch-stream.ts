// SPDX-License-Identifier: Apache-2.0
// The answer to one watch: what is written, what the client has not taken yet, and its end.
import type { ServerResponse } from "node:http";

/** A client that is further behind gets no more for the time being. */
const BACKLOG_MAX_BYTES = 1024 * 1024;

/** One open watch. */
export class WatchStream {
  readonly #response: ServerResponse;
  readonly #ended = new AbortController();

  constructor(response: ServerResponse) {
    this.#response = response;
    response.on("close", () => {
      this.#ended.abort();
    });
    if (response.destroyed) {
      // The client left while it was asked who it is.
      this.#ended.abort();
      return;
    }
    response.writeHead(200, { "content-type": "application/json", "transfer-encoding": "chunked" });
    response.flushHeaders();
  }

  /** Aborted when it has ended, whoever ended it. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Whether the client has to read before it should be sent more. */
  get isBehind(): boolean {
    return this.#response.writableLength > BACKLOG_MAX_BYTES;
  }

  write(text: string | Buffer): void {
    if (text.length > 0 && !this.signal.aborted) {
      this.#response.write(text);
    }
  }

  /** Resolves when the client has taken what was written, or the watch has ended. */
  async drained(): Promise<void> {
    if (!this.#response.writableNeedDrain || this.signal.aborted) {
      return;
    }
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
    if (this.isBehind) {
      this.#response.destroy();
    } else {
      this.#response.end();
    }
  }
}
