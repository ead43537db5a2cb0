// SPDX-License-Identifier: Apache-2.0
import { createSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { createFakeClock, createFakeFiles, settle } from "@patchbay/os/testing";
import * as dns from "dns-packet";
import { afterEach, expect, test } from "vitest";
import { createForwarder, parseServers } from "./forwarder.ts";
import { writeQuestion } from "./packets.ts";

test.each([
  { name: "none", text: "", want: [] },
  {
    name: "IPv4 and IPv6",
    text: "nameserver 192.0.2.1\nnameserver fd00::1\n",
    want: ["192.0.2.1", "fd00::1"],
  },
  { name: "indented lines", text: "  nameserver\t192.0.2.1  ", want: ["192.0.2.1"] },
  {
    name: "ignores other lines",
    text: "search example.org\n# nameserver 192.0.2.1\noptions 192.0.2.2",
    want: [],
  },
  { name: "ignores host names", text: "nameserver\nnameserver dns.example.org", want: [] },
  {
    name: "ignores its own address",
    text: "nameserver 10.96.0.10\nnameserver 192.0.2.1",
    want: ["192.0.2.1"],
  },
  {
    name: "uses at most three",
    text: [1, 2, 3, 4].map((last) => `nameserver 192.0.2.${String(last)}`).join("\n"),
    want: ["192.0.2.1", "192.0.2.2", "192.0.2.3"],
  },
])("servers of resolv.conf: $name", ({ text, want }) => {
  expect(parseServers(text, "10.96.0.10")).toEqual(want);
});

const ID = 4242;
const QUERY = writeQuestion("example.org", "A", 1);

/** An answer to a query, in which the fields are others. */
function answerQuery(query: Buffer, change: Partial<dns.Packet> = {}): Buffer {
  const { id, questions } = dns.decode(query);
  return dns.encode({ type: "response", id, questions, ...change });
}

const ends: (() => void)[] = [];

afterEach(() => {
  for (const end of ends.splice(0)) end();
});

type Reply = (query: Buffer) => readonly Buffer[];

/** A server's queries, and what waits for the next one. */
class Received {
  readonly queries: Buffer[] = [];
  #next = Promise.withResolvers<undefined>();

  add(query: Buffer): void {
    this.queries.push(query);
    this.#next.resolve(undefined);
    this.#next = Promise.withResolvers();
  }

  async atLeast(count: number): Promise<void> {
    while (this.queries.length < count) await this.#next.promise;
  }
}

async function udpServer(address: string, port: number, reply: Reply) {
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  const received = new Received();
  socket.on("message", (query: Buffer, from: RemoteInfo) => {
    received.add(query);
    for (const answer of reply(query)) socket.send(answer, from.port, from.address);
  });
  socket.bind(port, address);
  await once(socket, "listening");
  ends.push(() => socket.close());
  return { port: socket.address().port, received };
}

async function tcpServer(reply: (query: Buffer, socket: Socket) => void) {
  const received = new Received();
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (piece: Buffer) => {
      received.add(piece);
      reply(piece.subarray(2), socket);
    });
    ends.push(() => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.push(() => server.close());
  const address = server.address();
  return { port: typeof address === "object" ? (address?.port ?? 0) : 0, received };
}

function framed(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 255]), bytes]);
}

async function others(port: number, ...servers: readonly string[]) {
  const files = createFakeFiles();
  const text = servers.map((server) => `nameserver ${server}\n`).join("");
  await files.writeAtomic("/etc/resolv.conf", text);
  const clock = createFakeClock();
  const ids = [ID, ID + 1, ID + 2];
  const send = createForwarder({
    files,
    clock,
    randomId: () => ids.shift() ?? 0,
    ownAddress: "10.96.0.10",
    port,
  });
  return { clock, send };
}

const UDP = { isTcp: false, client: "10.88.0.9" };
const TCP = { ...UDP, isTcp: true };

test("a query has a new id, and its answer is returned", async () => {
  const { port, received } = await udpServer("127.0.0.1", 0, (query) => [answerQuery(query)]);
  const { send, clock } = await others(port, "127.0.0.1");
  const answer = await send(QUERY, UDP);
  expect(dns.decode(answer ?? Buffer.alloc(0))).toMatchObject({ id: ID, type: "response" });
  expect(received.queries).toEqual([writeQuestion("example.org", "A", ID)]);
  expect(clock.dueMs).toEqual([]);
});

test("an IPv6 server is queried too", async () => {
  const { port } = await udpServer("::1", 0, (query) => [answerQuery(query)]);
  const { send } = await others(port, "::1");
  expect(await send(QUERY, UDP)).toBeDefined();
});

test("ignores datagrams that do not answer the query", async () => {
  const other = { type: "A", name: "example.com" } as const;
  const { port } = await udpServer("127.0.0.1", 0, (query) => [
    answerQuery(query, { id: ID + 9 }),
    answerQuery(query, { questions: [other] }),
    answerQuery(query, { type: "query" }),
    Buffer.from("no packet"),
    answerQuery(query),
  ]);
  const { send } = await others(port, "127.0.0.1");
  const answer = dns.decode((await send(QUERY, UDP)) ?? Buffer.alloc(0));
  expect(answer).toMatchObject({ id: ID, type: "response", questions: [{ name: "example.org" }] });
});

test("queries the next server when a server has no listener", async () => {
  const { port } = await udpServer("127.0.0.2", 0, (query) => [answerQuery(query)]);
  const { send } = await others(port, "127.0.0.1", "127.0.0.2");
  expect(dns.decode((await send(QUERY, UDP)) ?? Buffer.alloc(0)).id).toBe(ID + 1);
});

test("queries the next server after 2 s of silence, and stops after the last", async () => {
  const { port, received: first } = await udpServer("127.0.0.1", 0, () => []);
  const { received: second } = await udpServer("127.0.0.2", port, () => []);
  const { send, clock } = await others(port, "127.0.0.1", "127.0.0.2");
  const answer = send(QUERY, UDP);
  await first.atLeast(1);
  expect(clock.dueMs).toEqual([2000]);
  await clock.advance(2000);
  await second.atLeast(1);
  await clock.advance(2000);
  expect(await answer).toBeUndefined();
  expect([first.queries.length, second.queries.length]).toEqual([1, 1]);
});

test("accepts a TCP answer in several chunks", async () => {
  const { port, received } = await tcpServer((query, socket) => {
    const bytes = framed(answerQuery(query));
    socket.setNoDelay(true);
    socket.write(bytes.subarray(0, 1));
    setImmediate(() => {
      socket.write(bytes.subarray(1, 9));
      setImmediate(() => socket.write(bytes.subarray(9)));
    });
  });
  const { send } = await others(port, "127.0.0.1");
  expect(dns.decode((await send(QUERY, TCP)) ?? Buffer.alloc(0))).toMatchObject({ id: ID });
  expect(received.queries).toEqual([framed(writeQuestion("example.org", "A", ID))]);
});

test.each([
  {
    name: "sends another answer",
    reply: (query: Buffer, socket: Socket) => socket.write(framed(answerQuery(query, { id: 1 }))),
  },
  { name: "closes the connection", reply: (_query: Buffer, socket: Socket) => socket.end() },
  {
    name: "resets the connection",
    reply: (_query: Buffer, socket: Socket) => socket.resetAndDestroy(),
  },
])("returns no answer from a TCP server that $name", async ({ reply }) => {
  const { port } = await tcpServer(reply);
  const { send } = await others(port, "127.0.0.1");
  expect(await send(QUERY, TCP)).toBeUndefined();
});

test("ends the query of a silent TCP server after 2 s", async () => {
  const { port, received } = await tcpServer(() => undefined);
  const { send, clock } = await others(port, "127.0.0.1");
  const answer = send(QUERY, TCP);
  await received.atLeast(1);
  await clock.advance(2000);
  expect(await answer).toBeUndefined();
});

test("returns no answer without servers or for an invalid query", async () => {
  const { send } = await others(53);
  expect(await send(QUERY, UDP)).toBeUndefined();
  expect(await send(Buffer.from("no packet"), UDP)).toBeUndefined();
});

/** Queries that stay open until the returned function is called. */
function openQueries() {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  let reads = 0;
  const readText = (): Promise<undefined> => {
    reads += 1;
    return promise;
  };
  const send = createForwarder({
    files: { readText },
    clock: createFakeClock(),
    randomId: () => ID,
    ownAddress: "",
  });
  const end = (): void => {
    resolve(undefined);
  };
  return { send, countReads: () => reads, end };
}

test("limits a client to 64 open queries until one ends", async () => {
  const { send, countReads, end } = openQueries();
  const open = Array.from({ length: 65 }, () => send(QUERY, UDP));
  await settle();
  expect(countReads()).toBe(64);
  void send(QUERY, { ...UDP, client: "10.88.0.10" });
  expect(countReads()).toBe(65);
  end();
  await Promise.all(open);
  for (let count = 0; count < 64; count += 1) void send(QUERY, UDP);
  expect(countReads()).toBe(129);
  await send(QUERY, UDP);
  expect(countReads()).toBe(129);
});

test("limits all clients together to 512 open queries", async () => {
  const { send, countReads, end } = openQueries();
  const sendFrom = (client: number) => send(QUERY, { ...UDP, client: String(client) });
  const open = Array.from({ length: 513 }, (_none, index) => sendFrom(index));
  await settle();
  expect(countReads()).toBe(512);
  end();
  await Promise.all(open);
  void sendFrom(0);
  expect(countReads()).toBe(513);
});
