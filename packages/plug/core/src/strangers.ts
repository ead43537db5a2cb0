// SPDX-License-Identifier: Apache-2.0
// Connections that have not shown whose they are: there is always room for one more.

/** What is asked of a connection. */
export interface Connection {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  once(event: "close", listener: () => void): unknown;
  destroy(): unknown;
}

/** A connection has two sockets, one below TLS and one above: what they have in common. */
function clientOf({ remoteAddress = "", remotePort = 0 }: Connection): string {
  return `${remoteAddress} ${String(remotePort)}`;
}

/** Anybody may connect, and who is refused at once comes again at once: so the oldest gives way. */
export class Strangers {
  /** In the order in which they came. */
  readonly #connections = new Map<string, Connection>();
  readonly #max: number;

  /** `max`: how many there may be. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a connection until it is closed or known; the oldest of too many is cut off. */
  add(connection: Connection): void {
    const client = clientOf(connection);
    this.#connections.set(client, connection);
    connection.once("close", () => {
      if (this.#connections.get(client) === connection) this.#connections.delete(client);
    });
    const [oldest] = this.#connections;
    if (this.#connections.size <= this.#max || oldest === undefined) return;
    this.#connections.delete(oldest[0]);
    oldest[1].destroy();
  }

  /** The connection is no stranger's any more, by either of its sockets. */
  know(connection: Connection): void {
    this.#connections.delete(clientOf(connection));
  }
}
