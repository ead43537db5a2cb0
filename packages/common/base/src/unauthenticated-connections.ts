// SPDX-License-Identifier: Apache-2.0
// A limit on unauthenticated connections.

export interface Connection {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  once(event: "close", listener: () => void): unknown;
  destroy(): unknown;
}

/** Returns an id of the client. A TLS connection has two sockets with the same remote address and port. */
function printClient({ remoteAddress = "", remotePort = 0 }: Connection): string {
  return `${remoteAddress} ${String(remotePort)}`;
}

/** Closes the oldest connection at the limit. It does not refuse the new one, because the client would reconnect at once. */
export class UnauthenticatedConnections {
  readonly #connections = new Map<string, Connection>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts the connection until it closes or `markAuthenticated` is called. */
  add(connection: Connection): void {
    const client = printClient(connection);
    this.#connections.set(client, connection);
    connection.once("close", () => {
      if (this.#connections.get(client) === connection) this.#connections.delete(client);
    });
    const [oldest] = this.#connections;
    if (this.#connections.size <= this.#max || oldest === undefined) return;
    this.#connections.delete(oldest[0]);
    oldest[1].destroy();
  }

  /** Marks the client as authenticated. Accepts either of the connection's two sockets. */
  markAuthenticated(connection: Connection): void {
    this.#connections.delete(printClient(connection));
  }
}
