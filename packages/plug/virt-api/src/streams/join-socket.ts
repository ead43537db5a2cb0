// SPDX-License-Identifier: Apache-2.0
// A WebSocket and a stream become one: bytes both ways, each side only as fast as the other takes them.
import type { Duplex } from "node:stream";
import type { Clock } from "@patchbay/core/ports";
import { createWebSocketStream, type WebSocket } from "ws";

/** Between a peer's signs of life, milliseconds: proxies end connections that are silent for a minute. */
const PING_MS = 30_000;
/** Going away: the other side says no more. Source: RFC 6455, 7.4.1 */
export const GOING_AWAY = 1001;
const NORMAL = 1000;

/** How many bytes went each way. */
export interface Traffic {
  readonly toGuest: number;
  readonly fromGuest: number;
}

/** Pings until it has ended, and ends a client that does not answer. A console may be silent for days. */
async function keepAlive(socket: WebSocket, clock: Clock): Promise<void> {
  const ended = new AbortController();
  let isAlive = true;
  socket.on("pong", () => {
    isAlive = true;
  });
  socket.on("close", () => {
    ended.abort();
  });
  while (!ended.signal.aborted) {
    await clock.sleep(PING_MS, ended.signal).catch(() => undefined); // aborted: it has ended
    // What a guest does not take waits, and a client's answers wait behind it: it is not dead for that.
    if (!isAlive && !socket.isPaused) socket.terminate();
    isAlive = false;
    if (socket.readyState === socket.OPEN) socket.ping();
  }
}

/** Joins them until one side ends; what went over. */
export function joinSocket(socket: WebSocket, guest: Duplex, clock: Clock): Promise<Traffic> {
  const { promise, resolve } = Promise.withResolvers<Traffic>();
  const client = createWebSocketStream(socket, { writableObjectMode: true });
  const traffic = { toGuest: 0, fromGuest: 0 };
  const count = (direction: keyof Traffic) => (chunk: Buffer) => {
    traffic[direction] += chunk.length;
  };
  void keepAlive(socket, clock);
  client.on("data", count("toGuest"));
  guest.on("data", count("fromGuest"));
  client.pipe(guest, { end: false });
  guest.pipe(client, { end: false });
  for (const side of [client, guest]) side.on("error", () => side.destroy());
  client.on("end", () => guest.end());
  client.on("close", () => guest.destroy());
  // What the guest has said last goes out before the end.
  guest.on("end", () => {
    client.end();
  });
  guest.on("close", () => {
    socket.close(NORMAL);
  });
  socket.on("close", () => {
    guest.destroy();
    resolve(traffic);
  });
  return promise;
}
