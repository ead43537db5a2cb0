// SPDX-License-Identifier: Apache-2.0
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { expect, test, afterEach, beforeEach } from "vitest";
import { openForward, joinSocket } from "./connections.ts";
import { Duplex } from "node:stream";
import { createFakeClock, settle, type FakeClock } from "@patchbay/os/testing";
import { WebSocket, WebSocketServer } from "ws";
import { eventually } from "@patchbay/support";

const HERE = "127.0.0.1";

test("forwards bytes both ways over TCP", async () => {
  const server = createServer((socket) => socket.pipe(socket)).listen(0, HERE);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const stream = await openForward(HERE, { port, protocol: "tcp" });
  stream.write("hello");
  expect(String((await once(stream, "data"))[0])).toBe("hello");
  stream.end();
  await once(stream, "close");
  server.close();
});

test("rejects a closed TCP port", async () => {
  const server = createServer().listen(0, HERE);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // as above
  server.close();
  await once(server, "close");
  await expect(openForward(HERE, { port, protocol: "tcp" })).rejects.toThrow("ECONNREFUSED");
});

test("preserves datagrams over UDP", async () => {
  const server = createSocket("udp4");
  server.on("message", (message, { port, address }) => {
    server.send(message, port, address);
  });
  server.bind(0, HERE);
  await once(server, "listening");
  const stream = await openForward(HERE, { port: server.address().port, protocol: "udp" });
  const heard: string[] = [];
  stream.on("data", (message: Buffer) => heard.push(String(message)));
  for (const word of ["one", "two"]) {
    stream.write(Buffer.from(word));
    await once(stream, "data");
  }
  expect(heard).toEqual(["one", "two"]);
  stream.destroy();
  await once(stream, "close");
  const closed = once(server, "close");
  server.close();
  await closed;
});

/** Longer than the interval of pings. */
const PAUSE_MS = 31_000;

const MIB = 1024 * 1024;

/** A guest that neither reads nor writes. */
class Deaf extends Duplex {
  override _read(): void {
    // It sends nothing.
  }

  override _write(): void {
    // It never reads.
  }
}

let clock: FakeClock;
let server: WebSocketServer;
let client: WebSocket;
let here: WebSocket;

beforeEach(async () => {
  clock = createFakeClock();
  server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // it listens on TCP
  client = new WebSocket(`ws://127.0.0.1:${String(port)}`, { autoPong: false });
  [here] = (await once(server, "connection")) as [WebSocket];
  if (client.readyState !== client.OPEN) await once(client, "open");
});

afterEach(() => {
  client.terminate();
  server.close();
});

async function passTwoPings(): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    await settle();
    await clock.advance(PAUSE_MS);
  }
  await settle();
}

test("terminates a client that answers no ping", async () => {
  void joinSocket(here, new Deaf(), clock);
  await passTwoPings();
  await eventually(() => here.readyState === here.CLOSED, { withinMs: 5_000 });
});

test("does not disconnect an idle client for six hours if it answers pings", async () => {
  client.on("ping", (data: Buffer) => {
    client.pong(data);
  });
  void joinSocket(here, new Deaf(), clock);
  for (const ms of [6 * 3_600_000, PAUSE_MS, PAUSE_MS]) {
    const answered = once(here, "pong");
    await settle();
    await clock.advance(ms);
    await answered;
  }
  expect(here.readyState).toBe(here.OPEN);
});

test("does not terminate a paused client, whose pongs are queued behind its data", async () => {
  void joinSocket(here, new Deaf(), clock);
  for (let index = 0; index < 4; index += 1) client.send(Buffer.alloc(MIB));
  await eventually(() => here.isPaused, { withinMs: 5_000 });
  await passTwoPings();
  expect(here.readyState).toBe(here.OPEN);
});
