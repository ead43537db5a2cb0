// SPDX-License-Identifier: Apache-2.0
import { request } from "node:https";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterEach, describe, expect, test } from "vitest";
import type { AccessCheck } from "./metrics-access.ts";
import { serveMetrics } from "./metrics-server.ts";

const log = createSilentLogger();
const CONTENT = "text/plain; version=0.0.4; charset=utf-8";
const WHERE = { metricsPort: 0, metricsAddress: "127.0.0.1" };
const NO_CONFIG = { isLive: () => true, configVersion: () => undefined };
let stop = new AbortController();

afterEach(() => {
  stop.abort();
  stop = new AbortController();
});

async function serve(
  print: () => Promise<string>,
  checkAccess?: AccessCheck,
): Promise<{ readonly port: number; readonly server: string }> {
  const metrics = { print, contentType: CONTENT };
  const served = {
    metrics,
    health: NO_CONFIG,
    ...(checkAccess !== undefined && { checkAccess }),
  };
  const port = await serveMetrics(WHERE, served, {
    clock: createClock(),
    log,
    signal: stop.signal,
  });
  return { port: port ?? 0, server: `http://127.0.0.1:${String(port)}` };
}

test("serves metrics in Prometheus format, read again for each request", async () => {
  let readings = 0;
  const { server } = await serve(() => {
    readings += 1;
    return Promise.resolve(`some_total ${String(readings)}\n`);
  });
  const first = await fetch(`${server}/metrics`);
  expect(first.headers.get("content-type")).toBe(CONTENT);
  expect([first.status, await first.text()]).toEqual([200, "some_total 1\n"]);
  expect(await (await fetch(`${server}/metrics?x=1`)).text()).toBe("some_total 2\n");
});

test.each([
  { method: "GET", path: "/" },
  { method: "GET", path: "/healthz" },
  { method: "POST", path: "/metrics" },
])("responds with 404 to other requests: $method $path", async ({ method, path }) => {
  const { server } = await serve(() => Promise.resolve("secret"));
  const response = await fetch(server + path, { method });
  expect([response.status, await response.text()]).toEqual([404, "not found"]);
});

test.each([
  { path: "/healthz", isLive: true, want: [200, "ok", "42"] },
  { path: "//healthz", isLive: true, want: [200, "ok", "42"] },
  { path: "/healthz", isLive: false, want: [500, "failed", "42"] },
])("reports the configuration version at $path, live: $isLive", async (row) => {
  const metrics = { print: () => Promise.resolve("secret"), contentType: CONTENT };
  const health = { isLive: () => row.isLive, configVersion: () => "42" };
  const deps = { clock: createClock(), log, signal: stop.signal };
  const port = await serveMetrics(WHERE, { metrics, health }, deps);
  const answer = await fetch(`http://127.0.0.1:${String(port)}${row.path}`);
  const [code, connectivity, version] = row.want;
  expect([answer.status, await answer.json()]).toEqual([
    code,
    { apiserver: { connectivity }, "config-resource-version": version },
  ]);
});

test("responds with 500 without details if metrics cannot be read", async () => {
  const { server } = await serve(() => Promise.reject(new Error("secret")));
  const response = await fetch(`${server}/metrics`);
  expect(response.status).toBe(500);
  expect(await response.text()).not.toContain("secret");
});

test("does not listen without a port", async () => {
  const metrics = { print: () => Promise.resolve(""), contentType: CONTENT };
  const deps = { clock: createClock(), log, signal: stop.signal };
  expect(await serveMetrics({}, { metrics, health: NO_CONFIG }, deps)).toBeUndefined();
});

test("does not respond after the end", async () => {
  const { server } = await serve(() => Promise.resolve(""));
  stop.abort();
  await expect(fetch(`${server}/metrics`)).rejects.toThrow();
});

describe("protected metrics", () => {
  const secret = (): Promise<string> => Promise.resolve("secret");

  /** Status and text of the answer; 0: the connection was not over TLS. */
  function get(port: number, authorization?: string): Promise<readonly [number, string]> {
    const { promise, resolve, reject } = Promise.withResolvers<readonly [number, string]>();
    const headers = authorization === undefined ? {} : { authorization };
    const options = { port, path: "/metrics", headers, rejectUnauthorized: false, agent: false };
    const clientRequest = request({ host: "127.0.0.1", ...options }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => {
        resolve([response.statusCode ?? 0, text]);
      });
    });
    clientRequest.on("error", reject).end();
    return promise;
  }

  test.each([
    { who: "nobody", authorization: undefined, code: 401 },
    { who: "a user by name", authorization: "Basic YTpi", code: 401 },
    { who: "a token that nobody knows", authorization: "Bearer unknown", code: 401 },
    { who: "whoever may not", authorization: "Bearer forbidden", code: 403 },
    { who: "whoever may", authorization: "Bearer granted", code: 200 },
    { who: "anybody while the API server is away", authorization: "Bearer away", code: 500 },
  ])("return $code for $who", async ({ authorization, code }) => {
    const { port } = await serve(secret, (token) =>
      token === "granted" || token === "forbidden" || token === "unknown"
        ? Promise.resolve(token)
        : Promise.reject(new Error("away")),
    );
    const [status, text] = await get(port, authorization);
    expect([status, text === "secret"]).toEqual([code, code === 200]);
  });

  test("are not served over plain HTTP", async () => {
    const { server } = await serve(secret, () => Promise.resolve("granted"));
    const headers = { authorization: "Bearer granted" };
    await expect(fetch(`${server}/metrics`, { headers })).rejects.toThrow();
  });
});
