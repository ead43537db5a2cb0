// SPDX-License-Identifier: Apache-2.0
// Requests that never complete, and silent connections.
import { once } from "node:events";
import { type Socket, connect } from "node:net";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiServerProcess, GREETING_MS } from "../api-server-process.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const TIMEOUT = { withinMs: 10_000 };
const SLOW = 100;
const UNAUTHENTICATED = 256;

let api: ApiServerProcess;
const sockets: Socket[] = [];

beforeAll(async () => {
  api = await ApiServerProcess.start({
    headersMs: 500,
    requestMs: 1500,
    unauthenticatedConnections: UNAUTHENTICATED,
  });
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  await api[Symbol.asyncDispose]();
});

function keep<S extends Socket>(socket: S): S {
  sockets.push(socket);
  socket.on("error", () => undefined).resume();
  return socket;
}

async function expectAllClosed(waiting: readonly Socket[]): Promise<void> {
  await eventually(() => waiting.every(({ closed }) => closed), TIMEOUT);
  expect(await api.greet()).toBeLessThan(GREETING_MS);
}

const HEAD = `POST ${MAPS} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n`;

test.each([
  { what: "endless headers", text: HEAD },
  { what: "endless bodies", text: `${HEAD}content-length: 3000000\r\n\r\n{` },
  { what: "endless chunks", text: `${HEAD}transfer-encoding: chunked\r\n\r\n1\r\n{\r\n` },
  { what: "silence", text: "" },
])("attack 64: cuts off $what", async ({ text }) => {
  const waiting: Socket[] = [];
  for (let index = 0; index < SLOW; index += 1) {
    const socket = keep(await api.connect());
    socket.write(text);
    waiting.push(socket);
  }
  await expectAllClosed(waiting);
});

test("attack 64: a watch may last longer than the time limit for receiving a request", async () => {
  const socket = keep(await api.connect());
  let output = "";
  socket.on("data", (chunk: Buffer) => (output += chunk.toString()));
  socket.write(`GET ${MAPS}?watch=1 HTTP/1.1\r\nhost: a\r\n\r\n`);
  const slow = keep(await api.connect());
  slow.write(HEAD);
  // The watch has lasted as long as the time limit of this request.
  await once(slow, "close");
  const late = keep(await api.connect());
  late.write(`${HEAD}content-length: 10\r\n\r\n`);
  await once(late, "close");
  await api.ask("POST", MAPS, '{"metadata":{"name":"late"}}');
  await eventually(() => output.includes('"name":"late"'), TIMEOUT);
  expect(socket.closed).toBe(false);
});

test("attack 65: retains only the newest of 2,000 unauthenticated connections and serves other clients", async () => {
  const unauthenticated: Socket[] = [];
  for (let round = 0; round < 20; round += 1) {
    for (let index = 0; index < 100; index += 1) {
      unauthenticated.push(keep(connect(api.port, "127.0.0.1")));
    }
    expect(await api.greet()).toBeLessThan(GREETING_MS);
  }
  await eventually(
    () => unauthenticated.filter(({ closed }) => !closed).length <= UNAUTHENTICATED,
    TIMEOUT,
  );
  expect(await api.ask("GET", MAPS)).toMatchObject({ code: 200 });
});

/** Sends headers of more than 32 KiB, and returns the response. It is empty if Node.js closed the connection before it sent one. */
async function sendLongHeaders(): Promise<string> {
  const socket = keep(await api.connect());
  let output = "";
  socket.on("data", (chunk: Buffer) => (output += chunk.toString()));
  socket.write(`GET ${MAPS}?timeout=${"1".repeat(33_000)} HTTP/1.1\r\nhost: a\r\n\r\n`);
  await once(socket, "close");
  return output;
}

test("attack 84: rejects headers larger than 32 KiB", async () => {
  const response = await eventually(async () => (await sendLongHeaders()) || undefined, TIMEOUT);
  expect(response).toContain("431 Request Header Fields Too Large");
});
