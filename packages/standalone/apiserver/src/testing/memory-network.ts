// SPDX-License-Identifier: Apache-2.0
// In-memory HTTP connections between a client and a server in one process.
import {
  type IncomingMessage,
  type Server,
  type ServerResponse,
  createServer,
  request as httpRequest,
} from "node:http";
import type { RequestOptions } from "node:https";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type Connections, type Peer, printHostPort } from "../backend/connections.ts";
import type { HostPort } from "../backend/service-address.ts";

/** One end of a connection. Writes to it are read at the other end. */
export class MemorySocket extends Socket {
  #other: MemorySocket | undefined;
  /** Whether writes are held back, as if the other end did not read. */
  isStuck = false;
  readonly #waiting: (() => void)[] = [];

  static pair(): readonly [MemorySocket, MemorySocket] {
    const [left, right] = [new MemorySocket(), new MemorySocket()];
    left.#other = right;
    right.#other = left;
    return [left, right];
  }

  /** Delivers the held-back writes. */
  release(): void {
    this.isStuck = false;
    for (const deliver of this.#waiting.splice(0)) deliver();
  }

  override _read(): void {
    // The other end pushes its writes at once.
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    const deliver = (): void => {
      if (this.#other?.destroyed === false) this.#other.push(chunk);
      setImmediate(done);
    };
    if (this.isStuck) this.#waiting.push(deliver);
    else deliver();
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#other?.destroyed === false) this.#other.push(null);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const other = this.#other;
    setImmediate(() => other?.destroy());
    done(error);
    // network sockets emit close by themselves
    setImmediate(() => this.emit("close", error !== null));
  }
}

// Corking would pass chunks to a method that only network sockets have.
Object.defineProperty(MemorySocket.prototype, "_writev", { value: undefined });

/** Connects to the server, and returns the client's end. */
export function connectInMemory(server: Server): MemorySocket {
  const [clientEnd, serverEnd] = MemorySocket.pair();
  server.emit("connection", serverEnd);
  return clientEnd;
}

/** A request as a client sends it. */
export interface SentRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string;
}

export interface ReceivedAnswer {
  readonly code: number;
  readonly headers: IncomingMessage["headers"];
  readonly trailers: IncomingMessage["trailers"];
  readonly bytes: Buffer;
  readonly text: string;
}

async function read(answer: IncomingMessage): Promise<ReceivedAnswer> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  const { statusCode: code = 0, headers, trailers } = answer;
  return { code, headers, trailers, bytes, text: bytes.toString() };
}

/** Sends a request. Rejects when the connection breaks. */
export function requestInMemory(
  server: Server,
  path: string,
  sent: SentRequest = {},
): Promise<ReceivedAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ReceivedAnswer>();
  const { method = "GET", headers = {}, body } = sent;
  const outgoing = httpRequest({
    method,
    path,
    headers: { host: "test", connection: "close", ...headers },
    createConnection: () => connectInMemory(server),
  });
  outgoing.on("error", reject);
  outgoing.on("response", (answer) => {
    read(answer).then(resolve, reject);
  });
  outgoing.end(body);
  return promise;
}

/** The upgraded connection, or the response that rejected the upgrade. */
export type UpgradedInMemory =
  | { readonly answer: IncomingMessage; readonly socket: Duplex }
  | { readonly refused: ReceivedAnswer };

/** Requests an upgrade to SPDY. Rejects when the connection breaks. */
export function upgradeInMemory(
  server: Server,
  path: string,
  { method = "GET", headers = {} }: SentRequest = {},
): Promise<UpgradedInMemory> {
  const { promise, resolve, reject } = Promise.withResolvers<UpgradedInMemory>();
  const outgoing = httpRequest({
    method,
    path,
    headers: { host: "test", connection: "Upgrade", upgrade: "SPDY/3.1", ...headers },
    createConnection: () => connectInMemory(server),
  });
  outgoing.on("error", reject);
  outgoing.on("response", (answer) => {
    read(answer).then((refused) => {
      resolve({ refused });
    }, reject);
  });
  outgoing.on("upgrade", (answer, socket, head) => {
    socket.unshift(head);
    resolve({ answer, socket });
  });
  outgoing.end();
  return promise;
}

/** A server behind the API server. */
export interface BackendServer {
  readonly server: Server;
  /** Received requests with their bodies. */
  readonly received: { readonly request: IncomingMessage; readonly body: string }[];
}

/** Creates a server that records each request and responds with `answer`. */
export function makeBackendServer(
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): BackendServer {
  const received: BackendServer["received"] = [];
  const server = createServer((request, response) => {
    void read(request).then(
      ({ text }) => {
        received.push({ request, body: text });
        answer(request, response, text);
      },
      () => undefined,
    );
  });
  return { server, received };
}

/** A server, or the error code with which connecting fails. */
export type ConnectTarget = Server | string;

/** Connections to servers by `host:port`. Other connections are refused. */
export class MemoryConnections {
  /** Connection attempts of the API server, in order. */
  readonly attempts: { readonly peer: Peer; readonly at: HostPort }[] = [];
  readonly sockets: MemorySocket[] = [];
  readonly #reached: Readonly<Record<string, ConnectTarget>>;

  constructor(target: Readonly<Record<string, ConnectTarget>>) {
    this.#reached = target;
  }

  get asConnections(): Connections {
    return this as unknown as Connections;
  }

  requestOptions(peer: Peer, at: HostPort): RequestOptions {
    this.attempts.push({ peer, at });
    return { host: at.host, port: at.port, createConnection: () => this.#connect(at) };
  }

  close(): void {
    this.sockets.forEach((socket) => socket.destroy());
  }

  #connect(at: HostPort): MemorySocket {
    const target = this.#reached[printHostPort(at)] ?? "ECONNREFUSED";
    if (typeof target === "string") {
      const socket = new MemorySocket();
      const error = Object.assign(new Error(`failed: ${target}`), { code: target });
      setImmediate(() => socket.destroy(error));
      return socket;
    }
    const socket = connectInMemory(target);
    this.sockets.push(socket);
    setImmediate(() => socket.emit("secureConnect"));
    return socket;
  }
}
