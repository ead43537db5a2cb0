// SPDX-License-Identifier: Apache-2.0
// What is a probe told, and when?
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { serveHealth } from "./health-server.ts";

const log = createSilentLogger();
let stop: AbortController;
let port: number | undefined;
let isLive: boolean;
let isReady: boolean;
const answers = {
  isLive: (): boolean => isLive,
  isReady: (): Promise<boolean> => Promise.resolve(isReady),
};

beforeEach(async () => {
  stop = new AbortController();
  isLive = true;
  isReady = false;
  port = await serveHealth(0, answers, { log, signal: stop.signal });
});

afterEach(() => {
  stop.abort();
});

async function get(path: string): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${String(port)}${path}`);
  return `${String(answer.status)} ${await answer.text()}`;
}

test("a service is live before it is ready", async () => {
  expect(await get("/healthz")).toBe("200 ok");
  expect(await get("/readyz")).toBe("503 not ready");
  isReady = true;
  expect(await get("/readyz?verbose")).toBe("200 ok");
});

test("a stuck loop fails the health check", async () => {
  isLive = false;
  expect(await get("/healthz")).toBe("503 a loop is stuck");
});

test("the health check contains notes, which do not change its status", async () => {
  const liveNotes = (): readonly string[] => ["the Lease was renewed 3 s ago"];
  stop.abort();
  const own = new AbortController();
  port = await serveHealth(0, { ...answers, liveNotes }, { log, signal: own.signal });
  expect(await get("/healthz")).toBe("200 ok\nthe Lease was renewed 3 s ago");
  isLive = false;
  expect(await get("/healthz")).toBe("503 a loop is stuck\nthe Lease was renewed 3 s ago");
  own.abort();
});

test("responds with 404 to other paths", async () => {
  expect(await get("/metrics")).toBe("404 not found");
});

test("serves metrics if the caller provides them, and reports a failure", async () => {
  let print = (): Promise<string> => Promise.resolve("patchbay_x 1\n");
  const socketPath = join(tmpdir(), `${randomUUID()}.sock`);
  const more = { ...answers, printMetrics: () => print() };
  await serveHealth(socketPath, more, { log, signal: stop.signal });
  const read = async (): Promise<string> => {
    const [answer] = (await once(request({ socketPath, path: "/metrics" }).end(), "response")) as [
      IncomingMessage,
    ];
    return `${String(answer.statusCode)} ${(await answer.toArray()).join("")}`;
  };
  expect(await read()).toBe("200 patchbay_x 1\n");
  print = () => Promise.reject(new Error("no link"));
  expect(await read()).toBe("500 no link");
});

test("attack 149: answers probes while a client keeps many connections open", async () => {
  const silent = Array.from({ length: 64 }, () => connect(port ?? 0, "127.0.0.1"));
  for (const socket of silent) socket.on("error", () => undefined);
  await Promise.all(silent.map((socket) => once(socket, "connect")));
  for (let probe = 0; probe < 42; probe += 1) expect(await get("/healthz")).toBe("200 ok");
  for (const socket of silent) socket.destroy();
});

test("a service that ends no longer responds", async () => {
  isReady = true;
  stop.abort();
  await eventually(
    () =>
      get("/readyz").then(
        (response) => response.startsWith("503"),
        () => true,
      ),
    { withinMs: 5000 },
  );
  await eventually(
    () =>
      get("/healthz").then(
        () => false,
        () => true,
      ),
    { withinMs: 5000 },
  );
});

test("responds in the same way at a Unix socket", async () => {
  const socketPath = join(tmpdir(), `health-${randomUUID()}`);
  const until = { log, signal: stop.signal };
  expect(await serveHealth(socketPath, answers, until)).toBeUndefined();
  const clientRequest = request({ socketPath, path: "/healthz", agent: false });
  const [answer] = (await once(clientRequest.end(), "response")) as [IncomingMessage];
  answer.resume();
  expect(answer.statusCode).toBe(200);
});

test("rejects a port in use, and does not listen without a port", async () => {
  const until = { log, signal: stop.signal };
  await expect(serveHealth(port, answers, until)).rejects.toMatchObject({ code: "EADDRINUSE" });
  expect(await serveHealth(undefined, answers, until)).toBeUndefined();
});

test("a draining service is live but not ready", async () => {
  isReady = true;
  const drain = new AbortController();
  const until = { log, drainSignal: drain.signal, signal: stop.signal };
  port = await serveHealth(0, answers, until);
  expect(await get("/readyz")).toBe("200 ok");
  drain.abort();
  expect(await get("/readyz")).toBe("503 not ready");
  expect(await get("/healthz")).toBe("200 ok");
});
