// SPDX-License-Identifier: Apache-2.0
import {
  isSystemKey,
  type PoolLimits,
  type Rate,
  RateLimiter,
  type RateLimiterDeps,
  type Release,
  SHARE_KEYS,
  SharePool,
  signalClose,
} from "./share-pool.ts";

export const HANDSHAKE_TIMEOUT_MS = 5000;

export interface Connection {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  once(event: "close", listener: () => void): unknown;
  destroy(): unknown;
}

/** Returns an ID that the TCP socket and the TLS socket of a connection share. A Unix socket has no address, so it is its own ID. */
function findId(connection: Connection): unknown {
  const { remoteAddress, remotePort = 0 } = connection;
  return remoteAddress === undefined ? connection : `${remoteAddress} ${String(remotePort)}`;
}

interface Entry {
  readonly id: unknown;
  readonly connection: Connection;
  key: string;
  requests: number;
  release: Release;
}

/** Limits the connections of a listener. At a limit, closes the oldest without a request, because a refused client would reconnect. */
export class ConnectionPool {
  readonly #pool: SharePool;
  readonly #entries = new Map<unknown, Entry>();
  readonly #silentTenants = new Set<Entry>();
  readonly #silentByKey = new Map<string, Set<Entry>>();

  constructor(limits: PoolLimits) {
    this.#pool = new SharePool(limits);
  }

  /** Counts the connection until it closes. Closes it if no silent connection can make room for it. */
  add(connection: Connection): void {
    const key = SHARE_KEYS.peer(connection.remoteAddress);
    const release = this.#makeRoom(key);
    if (release === undefined) {
      connection.destroy();
      return;
    }
    const entry = { id: findId(connection), connection, key, requests: 0, release };
    this.#entries.set(entry.id, entry);
    this.#silence(entry);
    connection.once("close", () => {
      this.#remove(entry);
    });
  }

  /** Counts the connection under another key, for example because its client has authenticated. The argument may be its TLS socket. */
  assign(connection: Connection, key: string): void {
    const entry = this.#entries.get(findId(connection));
    if (entry === undefined || entry.key === key) return;
    this.#remove(entry);
    const release = this.#makeRoom(key);
    if (release === undefined) {
      connection.destroy();
      return;
    }
    Object.assign(entry, { key, release });
    this.#entries.set(entry.id, entry);
    if (entry.requests === 0) this.#silence(entry);
  }

  /** Stops counting the connection. The argument may be its TLS socket. */
  remove(connection: Connection): void {
    const entry = this.#entries.get(findId(connection));
    if (entry !== undefined) this.#remove(entry);
  }

  /** Protects the connection until the returned function is called. The argument may be its TLS socket. */
  beginRequest(connection: Connection): () => void {
    const entry = this.#entries.get(findId(connection));
    if (entry === undefined) return () => undefined;
    entry.requests += 1;
    this.#unsilence(entry);
    return () => {
      entry.requests -= 1;
      if (entry.requests === 0 && this.#entries.get(entry.id) === entry) this.#silence(entry);
    };
  }

  #makeRoom(key: string): Release | undefined {
    const shortage = this.#pool.findShortage(key);
    const [oldestOfKey] = this.#silentByKey.get(key) ?? [];
    const [oldestTenant] = this.#silentTenants;
    const oldest = shortage === "share" ? oldestOfKey : (oldestTenant ?? oldestOfKey);
    if (shortage !== undefined && oldest !== undefined) {
      this.#remove(oldest);
      oldest.connection.destroy();
    }
    return this.#pool.tryAcquire(key);
  }

  #silence(entry: Entry): void {
    const { key } = entry;
    const silent = this.#silentByKey.get(key) ?? new Set();
    this.#silentByKey.set(key, silent.add(entry));
    if (!isSystemKey(key)) this.#silentTenants.add(entry);
  }

  #unsilence(entry: Entry): void {
    const silent = this.#silentByKey.get(entry.key);
    silent?.delete(entry);
    if (silent?.size === 0) this.#silentByKey.delete(entry.key);
    this.#silentTenants.delete(entry);
  }

  #remove(entry: Entry): void {
    if (this.#entries.get(entry.id) === entry) this.#entries.delete(entry.id);
    this.#unsilence(entry);
    entry.release();
  }
}

type RequestHandler = (
  request: { readonly socket: Connection },
  response: { once(event: "close", listener: () => void): unknown },
) => void;

interface HttpServer {
  on(event: "connection" | "secureConnection", listener: (connection: Connection) => void): unknown;
  on(event: "request", listener: RequestHandler): unknown;
  listeners(event: "request"): readonly unknown[];
  removeAllListeners(event: "request"): unknown;
}

/** Maximum number of open requests of a connection. Clients of Kubernetes send the next request after the response. */
const OPEN_REQUESTS_MAX = 4;

/** Closes connections with too many open requests, because each takes kilobytes. Must be called after the listeners for requests are added. */
export function limitPipelining(server: HttpServer): void {
  const handlers = server.listeners("request") as readonly RequestHandler[];
  const openRequests = new WeakMap<Connection, number>();
  server.removeAllListeners("request");
  server.on("request", (request, response) => {
    const { socket } = request;
    const openBefore = openRequests.get(socket) ?? 0;
    openRequests.set(socket, openBefore + 1);
    if (openBefore >= OPEN_REQUESTS_MAX) {
      socket.destroy();
      return;
    }
    response.once("close", () => {
      openRequests.set(socket, (openRequests.get(socket) ?? 0) - 1);
    });
    for (const handle of handlers) handle.call(server, request, response);
  });
}

const CERTIFIED = SHARE_KEYS.system("certificate");

/** Limits the connections of an HTTP server, and their requests. Certified clients may use the reserve. Upgrades must call `beginRequest`. */
export function limitConnections(
  server: HttpServer,
  limits: PoolLimits,
  isCertified: (connection: Connection) => boolean = () => false,
): ConnectionPool {
  const pool = new ConnectionPool(limits);
  server.on("connection", (connection) => {
    pool.add(connection);
  });
  server.on("secureConnection", (connection) => {
    if (isCertified(connection)) pool.assign(connection, CERTIFIED);
  });
  server.on("request", ({ socket }, response) => {
    response.once("close", pool.beginRequest(socket));
  });
  limitPipelining(server);
  return pool;
}

interface TcpConnection extends Connection {
  once(event: "close" | "error", listener: () => void): unknown;
  off(event: "close", listener: () => void): unknown;
}

type Handshake = (connection: TcpConnection) => void;

interface TlsServer {
  listeners(event: "connection"): readonly unknown[];
  removeAllListeners(event: "connection"): unknown;
  on(event: "connection", listener: Handshake): unknown;
}

/** Delays the TLS handshakes of an address that opens many connections, because each takes milliseconds. Must be called before any listener for connections is added. */
export function limitHandshakes(server: TlsServer, rate: Rate, deps: RateLimiterDeps): void {
  const limiter = new RateLimiter(rate, deps);
  // The only listener is that of Node.js, which starts the handshake. Its type is not declared.
  const handshakes = server.listeners("connection") as readonly Handshake[];
  server.removeAllListeners("connection");
  server.on("connection", (connection) => {
    // Until the handshake, nobody else handles an error. The connection then closes.
    connection.once("error", () => undefined);
    const key = SHARE_KEYS.peer(connection.remoteAddress);
    void limiter.proceed(key, signalClose(connection)).then((mayProceed) => {
      if (mayProceed) for (const start of handshakes) start.call(server, connection);
      else connection.destroy();
    });
  });
}
