// SPDX-License-Identifier: Apache-2.0
// Connections of a relay that have not shown whose they are: there is always room for one more.
import type { Socket } from "node:net";

/** A connection has two sockets, one below TLS and one above: what they have in common. */
function clientOf({ remoteAddress = "", remotePort = 0 }: Socket): string {
  return `${remoteAddress} ${String(remotePort)}`;
}

/** Anybody may connect to a port of a node, and who is refused at once comes again at once. */
export class Strangers {
  /** In the order in which they came. */
  readonly #sockets = new Map<string, Socket>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a connection until it is closed or known; the oldest of too many is cut off. */
  add(socket: Socket): void {
    const client = clientOf(socket);
    this.#sockets.set(client, socket);
    socket.once("close", () => {
      if (this.#sockets.get(client) === socket) this.#sockets.delete(client);
    });
    const [oldest] = this.#sockets;
    if (this.#sockets.size <= this.#max || oldest === undefined) return;
    this.#sockets.delete(oldest[0]);
    oldest[1].destroy();
  }

  /** The connection is no stranger's any more. */
  know(socket: Socket): void {
    this.#sockets.delete(clientOf(socket));
  }
}
