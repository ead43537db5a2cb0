// SPDX-License-Identifier: Apache-2.0
// Unread watches that could fill the server's memory.
import { once } from "node:events";
import type { TLSSocket } from "node:tls";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiServerProcess, GREETING_MS } from "../api-server-process.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const MIB = 1024 * 1024;
const WATCHES = 60;
/** More than the kernel buffers for a connection without a reader. */
const OBJECTS = 6;
/** Much less than the watches times the object, and more than the server's limit per user. */
const GROWTH_MAX = 120 * MIB;
const VALUE = "x".repeat(1_000_000);

let api: ApiServerProcess;

beforeAll(async () => {
  api = await ApiServerProcess.start({
    unreadMs: 2000,
    watches: { max: WATCHES, share: WATCHES },
    unauthenticatedConnections: 64,
  });
});
afterAll(() => api[Symbol.asyncDispose]());

async function watchUnread(): Promise<TLSSocket> {
  const socket = await api.connect();
  socket.write(`GET ${MAPS}?watch=1 HTTP/1.1\r\nhost: a\r\n\r\n`);
  await once(socket, "readable");
  socket.pause();
  return socket;
}

test("attack 63: closes watches of large objects whose clients do not read", async () => {
  const sockets: TLSSocket[] = [];
  for (let index = 0; index < WATCHES; index += 1) sockets.push(await watchUnread());
  const more = await api.ask("GET", `${MAPS}?watch=1&timeoutSeconds=1`);
  expect(more).toMatchObject({ code: 429 });
  const before = await api.memory();
  for (let index = 0; index < OBJECTS; index += 1) {
    const body = `{"metadata":{"name":"large-${String(index)}"},"data":{"a":"${VALUE}"}}`;
    expect(await api.ask("POST", MAPS, body)).toMatchObject({ code: 201 });
    expect(await api.greet()).toBeLessThan(GREETING_MS);
  }
  const { most } = await api.memory();
  expect(most - before.now).toBeLessThan(GROWTH_MAX);
  // The server ends them and frees their places.
  const again = await eventually(
    async () => {
      const { code } = await api.ask("GET", `${MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0`);
      return code === 200;
    },
    { withinMs: 30_000 },
  );
  expect(again).toBe(true);
  for (const socket of sockets) socket.destroy();
  expect((await api.memory()).most - before.now).toBeLessThan(GROWTH_MAX);
});

test("attack 63: cuts off large responses that the client does not read", async () => {
  const before = await api.memory();
  const sockets: TLSSocket[] = [];
  for (let index = 0; index < 100; index += 1) {
    const socket = await api.connect();
    socket.pause();
    socket.write(`GET ${MAPS}/large-0 HTTP/1.1\r\nhost: a\r\n\r\n`);
    sockets.push(socket);
  }
  expect(await api.greet()).toBeLessThan(GREETING_MS);
  expect((await api.memory()).now - before.now).toBeLessThan(GROWTH_MAX);
  for (const socket of sockets) socket.destroy();
});

test("attack 62: rejects watches beyond a user's quota; watches within it still receive events", async () => {
  const sockets: TLSSocket[] = [];
  const received: Promise<unknown>[] = [];
  for (let index = 0; index < WATCHES; index += 1) {
    const socket = await api.connect();
    received.push(
      new Promise((resolve) => {
        let output = "";
        socket.on("data", (chunk: Buffer) => {
          output += chunk.toString();
          if (output.includes("small-1")) resolve(undefined);
        });
      }),
    );
    socket.write(
      `GET ${MAPS}?watch=1&fieldSelector=metadata.name%3Dsmall-1 HTTP/1.1\r\nhost: a\r\n\r\n`,
    );
    await once(socket, "data");
    sockets.push(socket);
  }
  const more = await api.ask("GET", `${MAPS}?watch=1&timeoutSeconds=1`);
  expect(more).toMatchObject({ code: 429 });
  expect(await api.greet()).toBeLessThan(GREETING_MS);
  expect(await api.ask("POST", MAPS, '{"metadata":{"name":"small-1"}}')).toMatchObject({
    code: 201,
  });
  await Promise.all(received);
  for (const socket of sockets) socket.destroy();
});
