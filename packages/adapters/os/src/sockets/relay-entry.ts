// SPDX-License-Identifier: Apache-2.0
// The process between a peer that must always be read and a reader that may not read. Started by relay.ts only.
import { Socket } from "node:net";

/** Descriptors that relay.ts hands over. */
const READER_FD = 3;
const PEER_FD = 4;
/** Most that is kept for the reader, bytes: some screens. */
const KEPT_BYTES = 256 * 1024;
/** How long what was typed last may take to go out, milliseconds. */
const LAST_WORDS_MS = 1000;

const reader = new Socket({ fd: READER_FD, readable: true, writable: true, allowHalfOpen: true });
const peer = new Socket({ fd: PEER_FD, readable: true, writable: true, allowHalfOpen: true });
let waiting: Buffer[] = [];
let waitingBytes = 0;
let droppedBytes = 0;
let isPeerGone = false;

function flush(): void {
  if (reader.writableLength > 0) return; // "drain" comes
  if (droppedBytes > 0) {
    waiting.unshift(
      Buffer.from(`\r\n[patchbay: ${String(droppedBytes)} bytes were not read in time]\r\n`),
    );
  }
  const chunks = waiting;
  waiting = [];
  waitingBytes = droppedBytes = 0;
  if (chunks.length > 0) reader.write(Buffer.concat(chunks), flush);
  else if (isPeerGone) reader.end(() => process.exit());
}

function keep(chunk: Buffer): void {
  waiting.push(chunk);
  waitingBytes += chunk.length;
  while (waitingBytes > KEPT_BYTES) {
    const dropped = waiting.shift()?.length ?? waitingBytes;
    waitingBytes -= dropped;
    droppedBytes += dropped;
  }
  flush();
}

function leave(): void {
  peer.end(() => process.exit());
  setTimeout(() => process.exit(), LAST_WORDS_MS);
}

peer.on("data", keep);
peer.on("end", () => {
  isPeerGone = true;
  flush();
});
peer.on("error", () => process.exit());
reader.on("data", (chunk: Buffer) => peer.write(chunk));
reader.on("end", leave);
reader.on("error", leave);
