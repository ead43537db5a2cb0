// SPDX-License-Identifier: Apache-2.0
// Upgraded connections (WebSocket, SPDY) to aggregated APIs.
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import { readText } from "../client.ts";
import { readBytes, startExtension } from "./extension-server.ts";
import { type Harness, startHarness } from "../harness.ts";
import { KEY, upgrade } from "../upgrade.ts";

let api: Harness;

const TOKENS = [
  { token: "admin-token", user: "root", groups: ["system:masters"] },
  { token: "jane-token", user: "jane", groups: ["devs"] },
];

beforeAll(async () => {
  api = await startHarness({ tokens: TOKENS });
});

afterAll(async () => {
  await api.close();
});

/** Source: RFC 6455 4.2.2. */
function acceptKey(key: string): string {
  return createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
}

/** A short masked text frame. Source: RFC 6455 5.2. */
function clientFrame(text: string): Buffer {
  const mask = Buffer.from([1, 2, 3, 4]);
  const payload = Buffer.from(text).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([Buffer.from([0x81, 0x80 | payload.length]), mask, payload]);
}

function serverFrame(text: string): Buffer {
  return Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]);
}

function unmask(frame: Buffer): string {
  const mask = frame.subarray(2, 6);
  return Buffer.from(
    frame.subarray(6).map((byte, index) => byte ^ (mask[index % 4] ?? 0)),
  ).toString();
}

function switchProtocols(request: IncomingMessage, socket: Duplex): void {
  const key = request.headers["sec-websocket-key"] ?? "";
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${acceptKey(key)}\r\n\r\n`,
  );
}

test("a WebSocket speaks both ways and closes both ways", async () => {
  let serverSide: Duplex | undefined;
  await using extension = await startExtension(api, {
    upgrade: (request, socket) => {
      serverSide = socket;
      switchProtocols(request, socket);
      socket.write(serverFrame("hello"));
    },
  });
  const { answer, socket } = await upgrade(api, `${extension.path}/namespaces/default/things/x/do`);
  expect([answer.statusCode, answer.headers["sec-websocket-accept"]]).toEqual([
    101,
    acceptKey(KEY),
  ]);
  const [request] = extension.seen;
  expect([request?.headers["x-remote-user"], request?.headers.authorization]).toEqual([
    "root",
    undefined,
  ]);
  expect(socket === undefined ? "" : (await readBytes(socket, 7)).subarray(2).toString()).toBe(
    "hello",
  );
  socket?.write(clientFrame("and back"));
  const heard = serverSide === undefined ? "" : unmask(await readBytes(serverSide, 14));
  expect(heard).toBe("and back");
  serverSide?.end();
  socket?.resume();
  await eventually(() => socket?.closed, { withinMs: 5000 });
});

test("closing at the client closes at the backend", async () => {
  let serverSide: Duplex | undefined;
  await using extension = await startExtension(api, {
    upgrade: (request, socket) => {
      serverSide = socket;
      switchProtocols(request, socket);
      socket.resume();
    },
  });
  const { socket } = await upgrade(api, `${extension.path}/things`);
  socket?.destroy();
  await eventually(() => serverSide?.closed, { withinMs: 5000 });
});

test("a slow reader slows the writer down, and no data is lost", async () => {
  const bytes = 32 * 1024 * 1024;
  let written = 0;
  await using extension = await startExtension(api, {
    upgrade: (request, socket) => {
      switchProtocols(request, socket);
      const chunk = Buffer.alloc(64 * 1024, "x");
      void (async () => {
        while (written < bytes) {
          written += chunk.length;
          if (!socket.write(chunk)) {
            await once(socket, "drain");
          }
        }
        socket.end();
      })();
    },
  });
  const { socket } = await upgrade(api, `${extension.path}/things`);
  let [before, looks] = [0, 0];
  const stalled = () => {
    looks = written === before ? looks + 1 : 0;
    before = written;
    return written > 0 && looks > 10;
  };
  await eventually(stalled, { withinMs: 5000 });
  expect(written).toBeLessThan(bytes);
  let received = 0;
  for await (const chunk of socket ?? []) {
    received += (chunk as Buffer).length;
  }
  expect(received).toBe(bytes);
});

test("forwards SPDY", async () => {
  await using extension = await startExtension(api, {
    upgrade: (_request, socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n");
      socket.write("Connection: Upgrade\r\n\r\n");
      socket.pipe(socket);
    },
  });
  const { answer, socket } = await upgrade(api, `${extension.path}/things`, {
    upgrade: "SPDY/3.1",
  });
  expect(answer.headers.upgrade).toBe("SPDY/3.1");
  socket?.write("raw bytes");
  expect(socket === undefined ? "" : (await readBytes(socket, 9)).toString()).toBe("raw bytes");
  socket?.destroy();
});

test("forwards a backend's refusal of an upgrade", async () => {
  await using extension = await startExtension(api, {
    upgrade: (_request, socket) => {
      socket.end("HTTP/1.1 409 Conflict\r\nContent-Length: 7\r\nConnection: close\r\n\r\nnot now");
    },
  });
  const { answer } = await upgrade(api, `${extension.path}/things`);
  expect([answer.statusCode, await readText(answer)]).toEqual([409, "not now"]);
});

test.each([
  { name: "without rights", token: "Bearer jane-token", want: 403 },
  { name: "with an unknown token", token: "Bearer wrong", want: 401 },
])("rejects an upgrade $name before the backend sees it", async ({ token, want }) => {
  await using extension = await startExtension(api, {
    upgrade: (_request, socket) => socket.end(),
  });
  const { answer } = await upgrade(api, `${extension.path}/things`, { authorization: token });
  expect([answer.statusCode, JSON.parse(await readText(answer))]).toEqual([
    want,
    expect.objectContaining({ kind: "Status", code: want }),
  ]);
  expect(extension.seen).toEqual([]);
});

test("ignores the upgrade header on other paths", async () => {
  const { answer } = await upgrade(api, "/api/v1/namespaces/default", { upgrade: "h2c" });
  expect([answer.statusCode, JSON.parse(await readText(answer))]).toEqual([
    200,
    expect.objectContaining({ kind: "Namespace" }),
  ]);
});

test("closes the connections when the server stops", async () => {
  const own = await startHarness({ tokens: TOKENS });
  const before = api;
  api = own;
  try {
    await using extension = await startExtension(own, {
      upgrade: (request, socket) => {
        switchProtocols(request, socket);
        socket.on("error", () => undefined);
        socket.resume();
      },
    });
    const { socket } = await upgrade(api, `${extension.path}/things`);
    socket?.on("error", () => undefined).resume();
    await own.close();
    await eventually(() => socket?.closed, { withinMs: 5000 });
  } finally {
    api = before;
  }
});
