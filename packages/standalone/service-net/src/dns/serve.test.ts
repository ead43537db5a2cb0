// SPDX-License-Identifier: Apache-2.0
// The name server's sockets on the loopback address.
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { afterEach, expect, test } from "vitest";
import { serveNames, type NameServerDeps } from "./serve.ts";

const ADDRESS = "127.0.0.1";

const clock = createFakeClock();
const stop = { current: new AbortController() };
const clients: (UdpSocket | Socket)[] = [];

afterEach(() => {
  stop.current.abort();
  stop.current = new AbortController();
  for (const client of clients.splice(0)) {
    if ("destroy" in client) client.destroy();
    else client.close();
  }
});

/** Repeats a query and its transport; has no answer for `quiet` and fails for `bad`. */
const echo: NameServerDeps["answer"] = (bytes, { address, isTcp }) => {
  const query = bytes.toString();
  if (query === "bad") return Promise.reject(new Error("broken zone"));
  const answer = Buffer.from(`${query} ${address} ${isTcp ? "tcp" : "udp"}`);
  return Promise.resolve(query === "quiet" ? undefined : answer);
};

async function serve(port = 0) {
  const log = createFakeLogger();
  const { signal } = stop.current;
  return {
    log,
    port: await serveNames({ address: ADDRESS, port, answer: echo, clock, log }, signal),
  };
}

function udpClient(): UdpSocket {
  const client = createSocket("udp4");
  clients.push(client);
  return client;
}

function tcpClient(port: number): Socket {
  const client = connect(port, ADDRESS);
  client.on("error", () => undefined);
  clients.push(client);
  return client;
}

/** A query as TCP carries it: its length first. */
function framed(text: string): Buffer {
  return Buffer.concat([Buffer.from([0, text.length]), Buffer.from(text)]);
}

test("attack 141: answers a query over TCP while a client keeps many connections open", async () => {
  const { port } = await serve();
  const silent = Array.from({ length: 140 }, () => tcpClient(port));
  await Promise.all(silent.map((socket) => once(socket, "connect")));
  const client = tcpClient(port);
  client.write(framed("a"));
  const [answer] = (await once(client, "data")) as [Buffer];
  expect(answer.subarray(2).toString()).toBe("a 127.0.0.1 tcp");
});

test("attack 157: stops answering a TCP client that does not read", async () => {
  let answered = 0;
  const answer: NameServerDeps["answer"] = (bytes) => {
    if (bytes.toString() === "own") return Promise.resolve(bytes);
    answered += 1;
    return Promise.resolve(Buffer.alloc(60_000));
  };
  const { signal } = stop.current;
  const deps = { address: ADDRESS, port: 0, answer, clock, log: createFakeLogger() };
  const port = await serveNames(deps, signal);
  const attacker = tcpClient(port);
  await once(attacker, "connect");
  attacker.pause();
  attacker.write(Buffer.concat(Array.from({ length: 2000 }, () => framed("a"))));
  const client = tcpClient(port);
  for (let query = 0; query < 200; query += 1) {
    client.write(framed("own"));
    await once(client, "data");
  }
  expect(answered).toBeGreaterThan(0);
  expect(answered).toBeLessThan(500);
});

test("queries of an address over TCP beyond the rate wait", async () => {
  const { port } = await serve();
  const client = tcpClient(port);
  let length = 0;
  client.on("data", (bytes) => (length += bytes.length));
  client.write(Buffer.concat(Array.from({ length: 502 }, () => framed("a"))));
  const answered = (): number => length / framed("a 127.0.0.1 tcp").length;
  await expect.poll(answered).toBeGreaterThanOrEqual(499);
  expect(answered()).toBeLessThan(502);
  const advanceAndCount = async (): Promise<number> => {
    await clock.advance(1);
    return answered();
  };
  await expect.poll(advanceAndCount).toBe(502);
});

test("UDP clients get answers, and failed queries are dropped", async () => {
  const { port, log } = await serve();
  const client = udpClient();
  for (const query of ["quiet", "bad", "a"]) client.send(query, port, ADDRESS);
  const [answer] = (await once(client, "message")) as [Buffer];
  expect(answer.toString()).toBe("a 127.0.0.1 udp");
  expect(log.lines).toMatchObject([{ level: "error", fields: { reason: "broken zone" } }]);
});

test("TCP clients get an answer to each query in order, independent of chunks", async () => {
  const { port } = await serve();
  const client = tcpClient(port);
  const bytes = Buffer.concat([framed("one"), framed("two"), framed("three")]);
  const want = ["one", "two", "three"].map((query) => framed(`${query} 127.0.0.1 tcp`));
  client.setNoDelay(true);
  const received: Buffer[] = [];
  const all = Buffer.concat(want);
  for (const [from, to, answers] of [
    [0, 1, 0],
    [1, 4, 0],
    [4, 6, 1],
    [6, bytes.length, 3],
  ] as const) {
    client.write(bytes.subarray(from, to));
    const length = Buffer.concat(want.slice(0, answers)).length;
    while (Buffer.concat(received).length < length) {
      received.push(...((await once(client, "data")) as [Buffer]));
    }
  }
  expect(Buffer.concat(received)).toEqual(all);
});

test("closes a TCP client's connection when a query's length is above 4 KiB", async () => {
  const { port } = await serve();
  const client = tcpClient(port);
  client.write(Buffer.concat([framed("a"), Buffer.from([0x10, 0x01])]));
  let received = "";
  client.on("data", (piece) => (received += piece.toString()));
  await once(client, "close");
  expect(received.slice(2)).toBe("a 127.0.0.1 tcp");
});

test.each(["quiet", "bad"])("closes a TCP client's connection at %j", async (query) => {
  const { port } = await serve();
  const client = tcpClient(port);
  client.write(Buffer.concat([framed(query), framed("next")]));
  let received = "";
  client.on("data", (piece) => (received += piece.toString()));
  await once(client, "close");
  expect(received).toBe("");
});

test("an abort releases the port", async () => {
  const { port } = await serve();
  const client = tcpClient(port);
  await once(client, "connect");
  stop.current.abort();
  client.destroy();
  stop.current = new AbortController();
  // The same port is free for UDP and TCP again.
  expect(await serve(port)).toMatchObject({ port });
});

test("reports a port in use with the address", async () => {
  const { port } = await serve();
  await expect(serve(port)).rejects.toMatchObject({
    code: "SERVICE_NAMES_FAILED",
    details: { address: ADDRESS, reason: expect.stringContaining("EADDRINUSE") as string },
  });
});
