// SPDX-License-Identifier: Apache-2.0
// A limit on unauthenticated connections.

export interface Connection {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  once(event: "close", listener: () => void): unknown;
  destroy(): unknown;
}

/** Identifies a client. A TLS connection has two sockets, which share the remote address and port. */
function printClient({ remoteAddress = "", remotePort = 0 }: Connection): string {
  return `${remoteAddress} ${String(remotePort)}`;
}

/** At the limit, closes the oldest unauthenticated connection instead of refusing the new one; refused clients would reconnect at once. */
export class UnauthenticatedConnections {
  readonly #connections = new Map<string, Connection>();
  readonly #max: number;

  /** `max`: most unauthenticated connections at a time. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Counts the connection until it closes or `know` is called. Closes the oldest one if the limit is exceeded. */
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
