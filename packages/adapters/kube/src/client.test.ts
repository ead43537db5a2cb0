// SPDX-License-Identifier: Apache-2.0
// What becomes of words that come together with the answer, and of a stream that is refused?
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocketServer } from "ws";
import type { KubeConfig } from "./connection/kubeconfig.ts";
import { openStream } from "./client.ts";

const CALL = { path: "/console", protocol: "plain.kubevirt.io" };

let server: Server;
let sockets: WebSocketServer;
let config: KubeConfig;

beforeEach(async () => {
  server = createServer();
  sockets = new WebSocketServer({ noServer: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  config = {
    server: `http://127.0.0.1:${String(port)}`,
    skipTlsVerify: false,
    readCredentials: () => Promise.resolve({ token: "abc" }),
  };
});

afterEach(async () => {
  for (const socket of sockets.clients) socket.terminate();
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

test("receives bytes that arrive in the same segment as the response", async () => {
  server.on("upgrade", (request, socket, head) => {
    socket.cork();
    sockets.handleUpgrade(request, socket, head, (made) => {
      made.send("RFB 003.008\n");
      socket.uncork();
    });
  });
  const stream = await openStream(config, CALL);
  expect(String((await once(stream, "data"))[0])).toBe("RFB 003.008\n");
  stream.destroy();
});

test("reports the server's message in a rejection", async () => {
  const message = "the console of ns/one is in use";
  const text = JSON.stringify({ kind: "Status", code: 409, reason: "Conflict", message });
  const head = `HTTP/1.1 409 Conflict\r\ncontent-length: ${String(text.length)}`;
  server.on("upgrade", (_request, socket) => {
    socket.end(`${head}\r\nconnection: close\r\n\r\n${text}`);
  });
  await expect(openStream(config, CALL)).rejects.toMatchObject({ details: { message } });
});

test("names an unreachable server", async () => {
  server.on("upgrade", (_request, socket) => {
    socket.destroy();
  });
  await expect(openStream(config, CALL)).rejects.toThrow(config.server);
});
