// SPDX-License-Identifier: Apache-2.0

export interface Connection {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  once(event: "close", listener: () => void): unknown;
  destroy(): unknown;
}

/** Returns an ID of the client, which is the same for the TCP socket and the TLS socket of a connection. */
function printClient({ remoteAddress = "", remotePort = 0 }: Connection): string {
  return `${remoteAddress} ${String(remotePort)}`;
}

/** Limits unauthenticated connections. At the limit, closes the oldest instead of the newest: a rejected client would reconnect at once. */
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

  /** Stops counting the connection. The argument may be its TCP socket or its TLS socket. */
  markAuthenticated(connection: Connection): void {
    this.#connections.delete(printClient(connection));
  }
}
