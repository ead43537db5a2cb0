// SPDX-License-Identifier: Apache-2.0
// Streams of one namespace at the kubelet API, and readers of long logs.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  POD,
  startKubeletBench,
  type KubeletBench,
} from "../../../packages/standalone/node-runtime/src/testing/kubelet-bench.ts";

const ATTACHES = 260;
/** The share of a namespace. */
const SHARE = 256;
const READERS = 60;
const LOG_LINE_BYTES = 1000;
const LOG_LINES = 10_000;
/** Bytes that one reader may cause to be read: twice one part of the file, and its connection. */
const READ_MAX = 200_000;
const UPGRADE = {
  method: "POST",
  headers: { connection: "Upgrade", upgrade: "SPDY/3.1", "x-stream-protocol-version": "v4" },
};
const ACCEPTANCE =
  "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n";

let bench: KubeletBench;
/** The container runtime's stream server. */
let runtime: Server;
let sockets: Duplex[];

beforeEach(async () => {
  bench = await startKubeletBench();
  sockets = [];
  runtime = createServer((socket: Socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.once("data", () => socket.write(ACCEPTANCE));
  });
  runtime.listen(0, "127.0.0.1");
  await once(runtime, "listening");
  const { port } = runtime.address() as AddressInfo;
  bench.runtime.attach = () => Promise.resolve(`http://127.0.0.1:${String(port)}/attach/a`);
  bench.pods.put({ ...POD, metadata: { ...POD.metadata, namespace: "other" } });
  await bench.run();
});

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  runtime.close();
  await bench.stop();
});

/** Opens a stream. Returns the status code. */
async function attach(namespace: string): Promise<number | undefined> {
  const request = bench.open(`/attach/${namespace}/p/c?output=1`, UPGRADE);
  request.end();
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  request.on("error", reject);
  request.on("upgrade", ({ statusCode }: IncomingMessage, socket) => {
    socket.on("error", () => undefined);
    sockets.push(socket);
    resolve(statusCode);
  });
  request.on("response", (response) => {
    response.resume();
    resolve(response.statusCode);
  });
  return promise;
}

async function readLog(query: string): Promise<string> {
  const request = bench.open(`/containerLogs/ns/p/c?${query}`);
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return text(response);
}

test("attack 155: a namespace has a share of the streams, also of those that follow logs", async () => {
  await bench.write("one");
  const codes: (number | undefined)[] = [];
  for (let count = 0; count < ATTACHES; count += 1) codes.push(await attach("ns"));
  expect(codes.filter((code) => code === 101)).toHaveLength(SHARE);
  expect(codes.slice(SHARE)).toEqual(codes.slice(SHARE).map(() => 429));
  expect(await readLog("tailLines=1")).toMatch(/^namespace ns has too many open logs/);
  expect(await attach("other")).toBe(101);
  for (const socket of sockets.splice(0)) socket.destroy();
  await eventually(async () => (await attach("ns")) === 101, { withinMs: 10_000 });
  expect(await readLog("tailLines=1")).toBe("one\n");
});

/** Bytes that this process has read from files and connections. Source: proc(5), rchar. */
function countReadBytes(): number {
  return Number(/^rchar: (\d+)$/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
}

test("attack 155: the last line of a log of 10 MB is read from the file's end", async () => {
  const line = "x".repeat(LOG_LINE_BYTES);
  await bench.write(...Array.from({ length: LOG_LINES }, () => line), "last");
  const before = countReadBytes();
  const outputs = await Promise.all(Array.from({ length: READERS }, () => readLog("tailLines=1")));
  const bytes = countReadBytes() - before;
  expect(new Set(outputs)).toEqual(new Set(["last\n"]));
  expect(bytes).toBeLessThan(READERS * READ_MAX);
  // Reads of the file are counted.
  await readLog("");
  expect(countReadBytes() - before - bytes).toBeGreaterThan(LOG_LINES * LOG_LINE_BYTES);
});
