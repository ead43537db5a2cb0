// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import type { TimeSlice } from "../../limits/fair-queue.ts";

/** Disconnects a client that reads nothing for `timeoutMs` while data is pending. */
export function disconnectWhenUnread(response: ServerResponse, timeoutMs: number): void {
  // Each write, and each byte that the client reads, restarts the timeout.
  response.setTimeout(timeoutMs, () => {
    if (response.writableLength > 0) {
      response.destroy();
    }
  });
}

const CHUNK_LENGTH = 64 * 1024;

export interface Pieces {
  readonly code: number;
  readonly contentType: string;
  readonly pieces: Iterable<string> | AsyncIterable<string>;
  readonly unreadMs: number;
  readonly timeSlice: TimeSlice;
}

/**
 * Sends the pieces, and ends the response only when no written data is pending. Otherwise Node.js pauses the parser of
 * the connection, and the next request with a long body fails (HPE_PAUSED).
 */
export async function sendPieces(response: ServerResponse, content: Pieces): Promise<void> {
  response.writeHead(content.code, { "content-type": content.contentType });
  disconnectWhenUnread(response, content.unreadMs);
  const closeEvent = new Promise<void>((resolve) => response.once("close", resolve));
  const write = async (text: string) => {
    const bytes = Buffer.from(text);
    for (let offset = 0; offset < bytes.length && !response.destroyed; offset += CHUNK_LENGTH) {
      if (!response.write(bytes.subarray(offset, offset + CHUNK_LENGTH))) {
        await Promise.race([
          new Promise<void>((resolve) => response.once("drain", resolve)),
          closeEvent,
        ]);
        await content.timeSlice.waitForNext();
      }
    }
  };
  let chunk = "";
  for await (const piece of content.pieces) {
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
