// SPDX-License-Identifier: Apache-2.0
// Opens connections to guests, and joins them with the connections of WebSocket clients.
import { createSocket } from "node:dgram";
import { connect, isIPv6 } from "node:net";
import { Duplex } from "node:stream";
import type { ForwardRequest } from "./paths.ts";
import type { Clock } from "@patchbay/base";
import { createWebSocketStream, type WebSocket } from "ws";

const CONNECT_TIMEOUT_MS = 10_000;
/** Idle time in milliseconds before TCP keepalive probes, which detect a dead guest. */
const PROBE_AFTER_MS = 30_000;

function forwardTcp(address: string, port: number): Promise<Duplex> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
  const socket = connect({ host: address, port, timeout: CONNECT_TIMEOUT_MS });
  socket.once("timeout", () => {
    socket.destroy(new Error(`no answer within ${String(CONNECT_TIMEOUT_MS)} ms`));
  });
  socket.once("error", reject);
  socket.once("connect", () => {
    socket.setTimeout(0);
    socket.setKeepAlive(true, PROBE_AFTER_MS);
    socket.off("error", reject);
    socket.on("error", () => socket.destroy());
    resolve(socket);
  });
  return promise;
}

/** Connects to a UDP port. Each message is a datagram. Drops datagrams if the client reads too slowly. */
function forwardUdp(address: string, port: number): Promise<Duplex> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
  const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
  let canPush = true;
  const duplex = new Duplex({
    readableObjectMode: true,
    writableObjectMode: true,
    read: () => {
      canPush = true;
    },
    write: (chunk: Buffer, _encoding, done) => {
      socket.send(chunk, (error) => {
        done(error ?? null);
      });
    },
    destroy: (error, done) => {
      socket.close();
      done(error);
    },
  });
  socket.on("message", (message) => {
    if (canPush) canPush = duplex.push(message);
  });
  socket.on("error", (error) => duplex.destroy(error));
  duplex.on("error", () => undefined); // Ignores the error, because the close event follows and ends the stream.
  socket.connect(port, address, (error?: Error) => {
    if (error === undefined) resolve(duplex);
    else reject(error);
  });
  return promise;
}

/** Connects to a port of the guest at its pod address. @throws Error if the connection fails */
export function openForward(address: string, { port, protocol }: ForwardRequest): Promise<Duplex> {
  return protocol === "tcp" ? forwardTcp(address, port) : forwardUdp(address, port);
}

/** Interval between pings in milliseconds. Proxies often close connections that are idle for a minute. */
const PING_INTERVAL_MS = 30_000;
/** WebSocket close code of a server that shuts down. Source: RFC 6455, 7.4.1 */
export const GOING_AWAY = 1001;
const NORMAL_CLOSURE = 1000;

/** Number of bytes in each direction. */
export interface Traffic {
  readonly toGuest: number;
  readonly fromGuest: number;
}

/** Pings the client, because an idle console sends no data. Terminates the connection if the client does not reply. */
async function keepAlive(socket: WebSocket, clock: Clock): Promise<void> {
  const closed = new AbortController();
  let isAlive = true;
  socket.on("pong", () => {
    isAlive = true;
  });
  socket.on("close", () => {
    closed.abort();
  });
  while (!closed.signal.aborted) {
    await clock.sleep(PING_INTERVAL_MS, closed.signal).catch(() => undefined); // The close event aborts the sleep.
    // A paused socket is not terminated, because its pongs remain unread until the guest reads data again.
    if (!isAlive && !socket.isPaused) socket.terminate();
    isAlive = false;
    if (socket.readyState === socket.OPEN) socket.ping();
  }
}

/** Pipes data between client and guest until one side closes. Resolves with the number of bytes in each direction. */
export function joinSocket(socket: WebSocket, guest: Duplex, clock: Clock): Promise<Traffic> {
  const { promise, resolve } = Promise.withResolvers<Traffic>();
  const client = createWebSocketStream(socket, { writableObjectMode: true });
  const traffic = { toGuest: 0, fromGuest: 0 };
  const countBytes = (direction: keyof Traffic) => (chunk: Buffer) => {
    traffic[direction] += chunk.length;
  };
  void keepAlive(socket, clock);
  client.on("data", countBytes("toGuest"));
  guest.on("data", countBytes("fromGuest"));
  client.pipe(guest, { end: false });
  guest.pipe(client, { end: false });
  for (const side of [client, guest]) side.on("error", () => side.destroy());
  client.on("end", () => guest.end());
  client.on("close", () => guest.destroy());
  // Ends the client's stream first, so that the guest's last output is sent before the WebSocket is closed.
  guest.on("end", () => {
    client.end();
  });
  guest.on("close", () => {
    socket.close(NORMAL_CLOSURE);
  });
  socket.on("close", () => {
    guest.destroy();
    resolve(traffic);
  });
  return promise;
}
