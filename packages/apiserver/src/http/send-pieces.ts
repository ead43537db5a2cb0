// SPDX-License-Identifier: Apache-2.0
// Sends a long answer at the pace of the client, while others are served.
import { once } from "node:events";
import type { ServerResponse } from "node:http";

/** Characters that are written at once. */
const CHUNK_LENGTH = 64 * 1024;

async function write(response: ServerResponse, chunk: string): Promise<void> {
  if (!response.write(chunk) && !response.destroyed) {
    await once(response, "drain");
  }
}

/** Sends JSON text. Resolves when it is written, or when the client is gone. */
export async function sendPieces(
  response: ServerResponse,
  pieces: Iterable<string>,
): Promise<void> {
  response.writeHead(200, { "content-type": "application/json" });
  const gone = new Promise<void>((resolve) => response.once("close", resolve));
  let chunk = "";
  for (const piece of pieces) {
    if (response.destroyed) {
      return;
    }
    chunk += piece;
    if (chunk.length > CHUNK_LENGTH) {
      await Promise.race([write(response, chunk), gone]);
      chunk = "";
    }
  }
  response.end(`${chunk}\n`);
}
