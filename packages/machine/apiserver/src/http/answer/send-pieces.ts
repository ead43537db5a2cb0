// SPDX-License-Identifier: Apache-2.0
// Streaming of long responses at the speed of the client.
import type { ServerResponse } from "node:http";

/** Cuts the connection when the client has taken nothing for so long, while something waits for it. */
export function endUnread(response: ServerResponse, withinMs: number): void {
  // Each write and each byte taken begins the time anew.
  response.setTimeout(withinMs, () => {
    if (response.writableLength > 0) {
      response.destroy();
    }
  });
}

/** Characters, and bytes, that are written at once. */
const CHUNK_LENGTH = 64 * 1024;

/** An answer in pieces. */
interface Pieces {
  readonly code: number;
  readonly contentType: string;
  readonly pieces: Iterable<string> | AsyncIterable<string>;
  /** After so many milliseconds a client that takes nothing is cut off. */
  readonly unreadMs: number;
}

/**
 * Sends text. Resolves when it is written, or when the client is gone.
 * The end is not sent before the client has taken the rest: Node.js pauses the parser of a connection whose last answer is still in its buffer, and breaks it when the next request has a long body (HPE_PAUSED).
 */
export async function sendPieces(response: ServerResponse, answer: Pieces): Promise<void> {
  response.writeHead(answer.code, { "content-type": answer.contentType });
  endUnread(response, answer.unreadMs);
  const gone = new Promise<void>((resolve) => response.once("close", resolve));
  const write = async (text: string) => {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length && !response.destroyed; at += CHUNK_LENGTH) {
      if (!response.write(bytes.subarray(at, at + CHUNK_LENGTH))) {
        await Promise.race([new Promise<void>((resolve) => response.once("drain", resolve)), gone]);
      }
    }
  };
  let chunk = "";
  for await (const piece of answer.pieces) {
    chunk += piece;
    if (chunk.length > CHUNK_LENGTH) {
      await write(chunk);
      chunk = "";
    }
    if (response.destroyed) {
      return;
    }
  }
  if (chunk !== "") {
    await write(chunk);
  }
  response.end();
}
