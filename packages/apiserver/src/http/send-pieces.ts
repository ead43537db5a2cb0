// SPDX-License-Identifier: Apache-2.0
// Sends a long answer at the pace of the client, while others are served.
import type { ServerResponse } from "node:http";

/** Characters that are written at once. */
const CHUNK_LENGTH = 64 * 1024;

/** An answer in pieces. */
export interface Pieces {
  readonly code: number;
  readonly contentType: string;
  readonly pieces: Iterable<string>;
}

/**
 * Sends text. Resolves when it is written, or when the client is gone.
 * The end is not sent before the client has taken the rest: Node.js pauses the parser of a connection whose last answer is still in its buffer, and breaks it when the next request has a long body (HPE_PAUSED).
 */
export async function sendPieces(response: ServerResponse, answer: Pieces): Promise<void> {
  response.writeHead(answer.code, { "content-type": answer.contentType });
  const gone = new Promise<void>((resolve) => response.once("close", resolve));
  const write = async (text: string) => {
    if (!response.destroyed && !response.write(text)) {
      await Promise.race([new Promise<void>((resolve) => response.once("drain", resolve)), gone]);
    }
  };
  let chunk = "";
  for (const piece of answer.pieces) {
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
