// SPDX-License-Identifier: Apache-2.0
// An HTTP server for tests, which answers by a script and records requests.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { clearTimeout, setTimeout } from "node:timers";
import type { Pod } from "@patchbay/api/kubernetes";
import type { Clock } from "@patchbay/base";
import type { KubeConfig } from "../connection/kubeconfig.ts";

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export type Answer = (response: ServerResponse, request: RecordedRequest) => void;

export interface ScriptedServer extends AsyncDisposable {
  readonly config: KubeConfig;
  readonly requests: readonly RecordedRequest[];
  /** Number of accepted connections. */
  readonly connections: () => number;
  /** Breaks all connections. */
  readonly cut: () => void;
  /** Breaks all connections and refuses new ones. */
  readonly stop: () => Promise<void>;
  /** Accepts connections again, at the same address. */
  readonly restart: () => Promise<void>;
}

export const key = { namespace: "ns", name: "one" };

export const pod: Pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { ...key },
  spec: { containers: [] },
};

export function json(status: number, body: unknown): Answer {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  };
}

export function failure(code: number, reason: string, more: object = {}): Answer {
  return json(code, {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: `refused: ${reason}`,
    reason,
    code,
    ...more,
  });
}

/** Starts a stream of lines and leaves it open. */
export function lines(...texts: readonly string[]): Answer {
  return (response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    for (const text of texts) response.write(`${text}\n`);
  };
}

async function readBody(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  return body;
}

/** Starts a server that passes every request to `answer`. */
export async function startScriptedServer(answer: Answer): Promise<ScriptedServer> {
  const requests: RecordedRequest[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((request, response) => {
    void readBody(request).then((body) => {
      const url = new URL(request.url ?? "/", "http://localhost");
      const { method = "", headers } = request;
      const one = { method, path: url.pathname, query: url.searchParams, headers, body };
      requests.push(one);
      answer(response, one);
    });
  });
  server.on("connection", (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  const listen = (at: number): Promise<void> =>
    new Promise((resolve) => server.listen(at, "127.0.0.1", resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const stop = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve));
    cut();
    await closed;
  };
  return {
    config: {
      server: `http://127.0.0.1:${String(port)}`,
      skipTlsVerify: false,
      readCredentials: () => Promise.resolve({ token: "abc" }),
    },
    requests,
    connections: () => connections,
    cut,
    stop,
    restart: () => listen(port),
    [Symbol.asyncDispose]: stop,
  };
}

export const clock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(new Error("aborted"));
      });
    }),
};

/** Waits until `condition` holds, for at most 30 s, which is enough for a busy machine. */
export async function eventually(condition: () => boolean): Promise<void> {
  const end = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error("the condition did not hold within 30 s");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
