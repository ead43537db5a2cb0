// SPDX-License-Identifier: Apache-2.0
// Bytes both ways between a guest and whoever has its console, its screen or its packets.
import type { Duplex } from "node:stream";
import type { CaptureRequest, StreamRequest } from "@patchbay/core";

/** What is joined. */
export type StreamKind = (StreamRequest | CaptureRequest)["stream"];

/** So much of a console waits for a reader who does not read, bytes; what comes then is dropped, and told. */
const WAITING_MAX = 1024 * 1024;

/** The guest stops at a console that is not read: it is always read, whatever becomes of the words. */
function drain(from: Duplex, to: Duplex): void {
  let dropped = 0;
  from.on("data", (chunk: Buffer) => {
    if (to.writableLength > WAITING_MAX) {
      dropped += chunk.length;
      return;
    }
    if (dropped > 0) to.write(`\r\n[${String(dropped)} bytes of the console were not read]\r\n`);
    dropped = 0;
    to.write(chunk);
  });
  // It was paused until somebody wanted it.
  from.resume();
}

/** Joins them until one side ends; what is on its way then still arrives. */
export function joinStreams(stream: StreamKind, guest: Duplex, client: Duplex): void {
  if (stream === "console") drain(guest, client);
  else guest.pipe(client, { end: false });
  client.pipe(guest, { end: false });
  for (const [from, to] of [
    [guest, client],
    [client, guest],
  ] as const) {
    from.on("error", () => from.destroy());
    from.on("end", () => to.end());
    from.on("close", () => {
      to.end();
      // What waits for a reader who is gone is not kept; whoever was told the end is heard until it has ended itself.
      if (to === guest) guest.destroy();
      else client.resume();
    });
  }
}
