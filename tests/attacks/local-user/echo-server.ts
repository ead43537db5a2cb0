// SPDX-License-Identifier: Apache-2.0
// An API server that records requests and accepts everything.
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

export class EchoServer {
  readonly asked: Asked[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const { method = "", url: path = "", headers } = request;
      this.asked.push({ method, path, headers });
      response.writeHead(200, { "content-type": "application/json" });
      response.end('{"status":{"allowed":true}}');
      request.resume();
    });
  }

  static async start(): Promise<EchoServer> {
    const server = new EchoServer();
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    return server;
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${String(port)}`;
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}
