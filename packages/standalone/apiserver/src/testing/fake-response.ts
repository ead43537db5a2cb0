// SPDX-License-Identifier: Apache-2.0
// An in-memory HTTP response for watches. The test controls how fast the client reads.
import type { ServerResponse } from "node:http";
import { Writable } from "node:stream";

export interface WatchEvent {
  readonly type: string;
  readonly object: Readonly<Record<string, unknown>> & {
    readonly metadata: Readonly<Record<string, unknown>>;
  };
}

/** A response whose client reads everything at once, or only when `read` is called. */
export class FakeResponse extends Writable {
  readonly head: { code?: number; headers: Record<string, unknown> } = { headers: {} };
  /** Timeout after which an unread response is cut off, in milliseconds. */
  unreadMs: number | undefined;
  headersSent = false;
  /** Lengths of the written chunks. */
  readonly pieces: number[] = [];
  readonly #isSlow: boolean;
  #text = "";
  #unread: (() => void)[] = [];

  constructor(options: { readonly slow?: boolean } = {}) {
    super();
    this.#isSlow = options.slow === true;
  }

  get text(): string {
    return this.#text;
  }

  get events(): readonly WatchEvent[] {
    return this.#text
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as WatchEvent);
  }

  /** Reads everything that was written to a slow client. */
  read(): void {
    for (const take of this.#unread.splice(0)) take();
  }

  writeHead(code: number, headers: Readonly<Record<string, unknown>>): void {
    this.head.code = code;
    Object.assign(this.head.headers, headers);
  }

  setHeader(name: string, value: unknown): void {
    this.head.headers[name] = value;
  }

  flushHeaders(): void {
    this.headersSent = true;
  }

  setTimeout(milliseconds: number): void {
    this.unreadMs = milliseconds;
  }

  override _write(chunk: Buffer, _encoding: string, callback: () => void): void {
    const take = (): void => {
      this.pieces.push(chunk.length);
      this.#text += chunk.toString();
      callback();
    };
    if (this.#isSlow) this.#unread.push(take);
    else take();
  }

  get asServerResponse(): ServerResponse {
    return this as unknown as ServerResponse;
  }
}
