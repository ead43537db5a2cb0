// SPDX-License-Identifier: Apache-2.0
// A connection to a port of a guest, at the address that its pod has in the cluster.
import { createSocket } from "node:dgram";
import { connect } from "node:net";
import { isIPv6 } from "node:net";
import { Duplex } from "node:stream";
import type { ForwardRequest } from "./paths.ts";

/** A guest that does not answer is given up; milliseconds. */
const CONNECT_MS = 10_000;
/** After how long a silence TCP asks whether the guest still exists, milliseconds. */
const PROBE_AFTER_MS = 30_000;

function forwardTcp(address: string, port: number): Promise<Duplex> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
  const socket = connect({ host: address, port, timeout: CONNECT_MS });
  socket.once("timeout", () => {
    socket.destroy(new Error(`no answer within ${String(CONNECT_MS)} ms`));
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

/** Each message is a datagram; what comes faster than it is read is lost, as on a wire. */
function forwardUdp(address: string, port: number): Promise<Duplex> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
  const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
  let wantsMore = true;
  const duplex = new Duplex({
    readableObjectMode: true,
    writableObjectMode: true,
    read: () => {
      wantsMore = true;
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
    if (wantsMore) wantsMore = duplex.push(message);
  });
  socket.on("error", (error) => duplex.destroy(error));
  duplex.on("error", () => undefined); // its end is what matters
  socket.connect(port, address, (error?: Error) => {
    if (error === undefined) resolve(duplex);
    else reject(error);
  });
  return promise;
}

/**
 * Connects.
 * @throws Error with the system's words
 */
export function openForward(address: string, { port, protocol }: ForwardRequest): Promise<Duplex> {
  return protocol === "tcp" ? forwardTcp(address, port) : forwardUdp(address, port);
}
