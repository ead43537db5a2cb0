// SPDX-License-Identifier: Apache-2.0
// Access to the socket, and limits of requests.
import { once } from "node:events";
import { mkdtempSync, rmSync, statSync, utimesSync } from "node:fs";
import { request, type IncomingMessage } from "node:http";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { createFiles } from "@patchbay/os";
import { createFakeClock, type FakeClock } from "@patchbay/os/testing";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Life } from "../testing/life.ts";
import { FakeRuntime } from "../testing/runtime.ts";
import { World } from "../testing/world.ts";
import type { RuntimeDeps } from "./deps.ts";
import { serveRuntime } from "./serve.ts";

let clock: FakeClock;
let directory: string;
let socketPath: string;
let stop: AbortController;
let serving: Promise<void>;
let deps: RuntimeDeps;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "serve-runtime-"));
  socketPath = join(directory, "run", "cni.sock");
  stop = new AbortController();
  clock = createFakeClock();
  const runtime = new FakeRuntime(new World());
  const { promise: served, resolve } = Promise.withResolvers<undefined>();
  deps = {
    ...(await runtime.deps(new Life(Number.POSITIVE_INFINITY))),
    socketPath,
    clock,
    onServing: () => {
      resolve(undefined);
      return Promise.resolve();
    },
  };
  serving = serveRuntime(deps, createFiles(), stop.signal);
  await Promise.race([served, serving]);
});

afterEach(async () => {
  stop.abort();
  await serving;
  rmSync(directory, { recursive: true });
});

async function post(path: string, body: string): Promise<readonly [number | undefined, string]> {
  const asked = request({ socketPath, path, method: "POST", agent: false });
  asked.on("error", () => undefined); // it is answered before it has said all
  const [answer] = (await once(asked.end(body), "response")) as [IncomingMessage];
  return [answer.statusCode, await text(answer)];
}

test("restricts the socket and its directory to root", () => {
  expect(statSync(socketPath).mode & 0o777).toBe(0o600);
  expect(statSync(join(directory, "run")).mode & 0o777).toBe(0o700);
});

test("answers with a content length and one call per connection", async () => {
  expect(await post("/healthz", "")).toEqual([200, ""]);
  const [status, body] = await post("/cni", "{}");
  expect(status).toBe(400);
  expect(JSON.parse(body)).toMatchObject({ code: 4 });
});

test("rejects an oversized request", async () => {
  const [status] = await post("/cni", "x".repeat(3 * 1024 * 1024));
  expect(status).toBe(413);
});

test("survives a client that disconnects during its request", async () => {
  const socket = createConnection(socketPath);
  await once(socket, "connect");
  socket.write("POST /cni HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx");
  socket.destroy();
  expect(await post("/readyz", "")).toEqual([200, ""]);
});

test("rejects a second agent on the same socket", async () => {
  await expect(serveRuntime(deps, createFiles(), stop.signal)).rejects.toMatchObject({
    code: "OS_PATH_REFUSED",
    message: expect.stringContaining("another process listens there") as string,
  });
  expect(await post("/healthz", "")).toEqual([200, ""]);
});

test("touches the socket each minute while it serves, and leaves it at the end", async () => {
  await eventually(() => clock.dueMs.length > 0, { withinMs: 5_000 });
  utimesSync(socketPath, 0, 0);
  await clock.advance(60_000);
  // The file's time is rounded.
  const isNow = (): boolean => Math.abs(statSync(socketPath).mtimeMs - clock.now()) < 10;
  await eventually(isNow, { withinMs: 5_000 });
  stop.abort();
  await serving;
  expect(statSync(socketPath).isSocket()).toBe(true);
  stop = new AbortController();
  serving = serveRuntime(deps, createFiles(), stop.signal);
  await eventually(
    () =>
      post("/healthz", "").then(
        ([status]) => status === 200,
        () => false,
      ),
    { withinMs: 5_000 },
  );
});
