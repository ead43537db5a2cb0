// SPDX-License-Identifier: Apache-2.0
// Pods that attack the name server: chained compression pointers, silent connections, and answers that are not read.
import { type ChildProcess, fork } from "node:child_process";
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import * as dns from "dns-packet";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";

const ENTRY = fileURLToPath(new URL("../name-server-child.ts", import.meta.url));
/** Loopback addresses that only this file uses. */
const [SERVER, ATTACKER, CLIENT] = ["127.0.53.140", "127.0.53.141", "127.0.53.142"];
const NAME = "web.blue.svc.cluster.local";
/** Time in which a client must get its answer. An idle machine needs a millisecond, the attacked server took 400 ms. */
const ANSWER_MS = 250;

let child: ChildProcess;
let port: number;
const sockets: (Socket | UdpSocket)[] = [];

beforeAll(async () => {
  child = fork(ENTRY, [SERVER], { execArgv: ["--conditions=@patchbay/source"] });
  [port] = (await once(child, "message")) as [number];
});

afterEach(() => {
  for (const socket of sockets.splice(0)) {
    if ("destroy" in socket) socket.destroy();
    else socket.close();
  }
});

afterAll(async () => {
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
});

function query(name: string, id = 1): Buffer {
  return dns.encode({ type: "query", id, questions: [{ type: "A", name }] });
}

function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}

async function udpFrom(address: string): Promise<UdpSocket> {
  const socket = createSocket("udp4");
  sockets.push(socket);
  socket.bind(0, address);
  await once(socket, "listening");
  return socket;
}

async function tcpFrom(localAddress: string): Promise<Socket> {
  const socket = connect({ host: SERVER, port, localAddress });
  socket.on("error", () => undefined);
  sockets.push(socket);
  await once(socket, "connect");
  return socket;
}

/** Sends a query over TCP. Returns the number of answers in the response. */
async function askByTcp(socket: Socket): Promise<number> {
  socket.write(framed(query(NAME)));
  const [answer] = (await once(socket, "data", { signal: AbortSignal.timeout(5000) })) as [Buffer];
  return dns.decode(answer.subarray(2)).answers?.length ?? 0;
}

async function longestTurnMs(): Promise<number> {
  const answer = once(child, "message");
  child.send("longest turn");
  const [longest] = (await answer) as [number];
  return longest;
}

async function residentBytes(): Promise<number> {
  const status = await readFile(`/proc/${String(child.pid)}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** A datagram whose records have names of pointers, each of which leads to the one before. */
function chainedPointers(): Buffer {
  const start = query(NAME);
  const bytes = Buffer.concat([start, Buffer.alloc(65_000)]);
  bytes.writeUInt16BE(5000, 10);
  for (let offset = start.length; offset + 1 < bytes.length; offset += 2)
    bytes.writeUInt16BE(0xc0_00 | Math.min(0x3f_fe, Math.max(12, offset - 2)), offset);
  return bytes;
}

test("attack 140: answers others' queries while datagrams with chained pointers arrive", async () => {
  const [attacker, client] = [await udpFrom(ATTACKER), await udpFrom(CLIENT)];
  const datagram = chainedPointers();
  await longestTurnMs();
  const waitsMs: number[] = [];
  for (let id = 1; id <= 20; id += 1) {
    attacker.send(datagram, port, SERVER);
    const begunMs = performance.now();
    const answer = once(client, "message", { signal: AbortSignal.timeout(5000) });
    client.send(query(NAME, id), port, SERVER);
    const [bytes] = (await answer) as [Buffer];
    waitsMs.push(performance.now() - begunMs);
    expect(dns.decode(bytes)).toMatchObject({ id, answers: [{ data: "10.96.0.5" }] });
    await delay(20);
  }
  expect(waitsMs.toSorted((a, b) => a - b)[10]).toBeLessThan(ANSWER_MS);
  expect(await longestTurnMs()).toBeLessThan(ANSWER_MS);
});

test("attack 141: answers others' queries over TCP while a pod keeps 140 connections open", async () => {
  const early = await tcpFrom(CLIENT);
  for (let count = 0; count < 140; count += 1) await tcpFrom(ATTACKER);
  const late = await tcpFrom(CLIENT);
  expect([await askByTcp(early), await askByTcp(late)]).toEqual([1, 1]);
});

/** Sends queries with long names until the server stops reading them. Returns the number of sent bytes. */
async function sendUntilStalled(socket: Socket): Promise<number> {
  const name = [...Array.from({ length: 3 }, () => "x".repeat(60)), NAME].join(".");
  const portion = Buffer.concat(Array.from({ length: 100 }, () => framed(query(name))));
  socket.pause();
  let sent = 0;
  for (;;) {
    sent += portion.length;
    if (socket.write(portion)) continue;
    const stalled = delay(400, "stalled");
    const drained = once(socket, "drain").then(() => "drained");
    if ((await Promise.race([stalled, drained])) === "stalled") return sent;
  }
}

/** Socket buffers of both ends hold at most this many bytes of queries and answers. */
const STALLED_BYTES = 64 * 1024 * 1024;
const GROWTH_BYTES = 64 * 1024 * 1024;

test("attack 157: stops reading the queries of a client that does not read its answers", async () => {
  const attacker = await tcpFrom(ATTACKER);
  const before = await residentBytes();
  const sent = await sendUntilStalled(attacker);
  expect(sent).toBeLessThan(STALLED_BYTES);
  expect((await residentBytes()) - before).toBeLessThan(GROWTH_BYTES);
  expect(await askByTcp(await tcpFrom(CLIENT))).toBe(1);
});
