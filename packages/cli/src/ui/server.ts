// SPDX-License-Identifier: Apache-2.0
// Serves the panel's page on a loopback port, and forwards its requests to the API server.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import {
  type ConnectionPool,
  limitConnections,
  messageOf,
  type Clock,
  type PoolLimits,
} from "@patchbay/base";

import type { KubeClient } from "@patchbay/kube";
import { toForwardedCall, toForwardedStream, type ForwardedCall } from "./calls.ts";
import { findOriginProblem, type RequestOrigin, LinkTokens, type RandomBytes } from "./access.ts";
import { buildHeaders, type PanelFile } from "./page.ts";
import { GuestStreams, findOfferedKey } from "./streams.ts";
import { streamChanges, type WatchScope } from "./watches.ts";

export interface PanelDeps {
  readonly client: Pick<KubeClient, "exchange" | "reflect" | "openStream" | "server">;
  readonly files: ReadonlyMap<string, PanelFile>;
  readonly scope: WatchScope;
  readonly random: RandomBytes;
  readonly clock: Pick<Clock, "sleep">;
  /** Lists names of bootable images on this machine. Returns an empty list if there is no standalone machine. */
  readonly images: () => Promise<readonly string[]>;
}

export interface Panel {
  readonly port: number;
  /** Creates a link that works only in the first browser that opens it. Invalidates a previous link that no browser has opened. */
  createLink(): string;
  close(): Promise<void>;
}

const LOOPBACK = "127.0.0.1";
/** Header with the browser's secret key. Pages of other origins cannot send the header, because their preflight requests are rejected. */
const KEY_HEADER = "x-panel-key";
/** Limits on connections. All browsers have the same address. */
const CONNECTION_LIMITS: PoolLimits = { max: 100, share: 100 };
const BODY_MAX_BYTES = 1024 * 1024;
const NONCE_BYTES = 16;
const JSON_TYPE = "application/json";

function readHeader(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === "string" ? value : undefined;
}

function readOrigin(request: IncomingMessage): RequestOrigin {
  const { host, origin } = request.headers;
  const site = readHeader(request, "sec-fetch-site");
  return { method: request.method ?? "", host, origin, site };
}

/** @throws SyntaxError if the body is not JSON, RangeError if it is too long */
async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > BODY_MAX_BYTES) throw new RangeError("the body is too long");
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString("utf8");
  return text === "" ? undefined : JSON.parse(text);
}

class PanelServer implements Panel {
  readonly #deps: PanelDeps;
  readonly #tokens: LinkTokens;
  readonly #streams: GuestStreams;
  readonly #server: Server;
  readonly #connections: ConnectionPool;

  constructor(deps: PanelDeps) {
    this.#deps = deps;
    this.#tokens = new LinkTokens(deps.random);
    this.#streams = new GuestStreams(deps.client);
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        this.#refuse(response, 502, messageOf(error));
      });
    });
    this.#connections = limitConnections(this.#server, CONNECTION_LIMITS);
    this.#server.on("upgrade", (request, socket, head) => {
      this.#upgrade(request, socket, head);
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port; // The cast is safe, because a TCP server has an AddressInfo.
  }

  createLink(): string {
    return `http://${LOOPBACK}:${String(this.port)}/#token=${this.#tokens.issue()}`;
  }

  async listen(port: number): Promise<void> {
    this.#server.listen(port, LOOPBACK);
    await once(this.#server, "listening");
  }

  async close(): Promise<void> {
    this.#streams.close();
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const problem = findOriginProblem(readOrigin(request), this.port);
    if (problem !== undefined) {
      this.#refuse(response, 403, problem);
      return;
    }
    const target = request.url ?? "";
    const file = request.method === "GET" ? this.#deps.files.get(target) : undefined;
    if (file !== undefined) this.#sendFile(response, file);
    else if (request.method === "POST" && target === "/session")
      await this.#exchangeToken(request, response);
    else if (!this.#tokens.isIssuedKey(readHeader(request, KEY_HEADER) ?? "")) {
      this.#refuse(
        response,
        401,
        "this page's link is good no more; take a new one in the terminal",
      );
    } else await this.#serve(request, response);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = request.url ?? "";
    if (request.method === "GET" && target === "/watch") {
      this.#begin(response, 200, "application/x-ndjson");
      await streamChanges(this.#deps, this.#deps.scope, response);
      return;
    }
    if (request.method === "GET" && target === "/images") {
      this.#send(response, 200, { names: await this.#deps.images() });
      return;
    }
    const call = toForwardedCall(request.method ?? "", target);
    if (call === undefined) this.#refuse(response, 404, "the panel passes no such request on");
    else await this.#forward(call, request, response);
  }

  async #exchangeToken(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const { token, browser } = (body ?? {}) as Readonly<Record<string, unknown>>;
    const isComplete = typeof token === "string" && typeof browser === "string";
    const key = isComplete ? this.#tokens.exchange(token, browser) : undefined;
    if (key === undefined) {
      this.#refuse(response, 401, "another browser has used the link, or a newer one was made");
      return;
    }
    const { client, scope } = this.#deps;
    this.#send(response, 200, { key, server: client.server, namespace: scope.namespace });
  }

  async #forward(
    call: ForwardedCall,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const body = await readBody(request);
    const contentType = readHeader(request, "content-type") ?? JSON_TYPE;
    const { status, text, warnings } = await this.#deps.client.exchange({
      ...call,
      ...(body !== undefined && { body, contentType }),
      timeoutMs: 30_000,
    });
    this.#send(response, 200, { status, text, warnings });
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    const stream = toForwardedStream(request.url ?? "");
    const key = findOfferedKey(readHeader(request, "sec-websocket-protocol"));
    const problem = findOriginProblem(readOrigin(request), this.port, true);
    if (problem !== undefined || stream === undefined || !this.#tokens.isIssuedKey(key ?? "")) {
      socket.end("HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
      return;
    }
    this.#connections.beginRequest(request.socket);
    this.#streams.open(stream, { request, socket, head });
  }

  #begin(response: ServerResponse, status: number, type: string): string {
    const nonce = Buffer.from(this.#deps.random(NONCE_BYTES)).toString("base64url");
    response.writeHead(status, buildHeaders(type, nonce));
    response.flushHeaders();
    return nonce;
  }

  #sendFile(response: ServerResponse, file: PanelFile): void {
    const nonce = this.#begin(response, 200, file.type);
    response.end(file.render(nonce));
  }

  #send(response: ServerResponse, status: number, body: object): void {
    this.#begin(response, status, JSON_TYPE);
    response.end(JSON.stringify(body));
  }

  #refuse(response: ServerResponse, status: number, message: string): void {
    if (response.headersSent) response.destroy();
    else this.#send(response, status, { message });
  }
}

/** @throws EADDRINUSE and other errors of listen(2) */
export async function startPanel(deps: PanelDeps, port: number): Promise<Panel> {
  const server = new PanelServer(deps);
  await server.listen(port);
  return server;
}
