// SPDX-License-Identifier: Apache-2.0
import { createSilentLogger } from "@patchbay/telemetry";
import { afterEach, expect, test } from "vitest";
import { serveMetrics } from "./metrics-server.ts";

const log = createSilentLogger();
const CONTENT = "text/plain; version=0.0.4; charset=utf-8";
let stop = new AbortController();

afterEach(() => {
  stop.abort();
  stop = new AbortController();
});

async function serve(print: () => Promise<string>): Promise<string> {
  const where = { metricsPort: 0, metricsAddress: "127.0.0.1" };
  const port = await serveMetrics(
    where,
    { print, contentType: CONTENT },
    { log, signal: stop.signal },
  );
  return `http://127.0.0.1:${String(port)}`;
}

test("the metrics are answered as Prometheus takes them, read anew each time", async () => {
  let readings = 0;
  const server = await serve(() => {
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
])("nothing else is: $method $path", async ({ method, path }) => {
  const server = await serve(() => Promise.resolve("secret"));
  const response = await fetch(server + path, { method });
  expect([response.status, await response.text()]).toEqual([404, "not found"]);
});

test("metrics that cannot be read are an error of the server, without a reason", async () => {
  const server = await serve(() => Promise.reject(new Error("secret")));
  const response = await fetch(`${server}/metrics`);
  expect(response.status).toBe(500);
  expect(await response.text()).not.toContain("secret");
});

test("without a port nobody is answered", async () => {
  const nothing = { print: () => Promise.resolve(""), contentType: CONTENT };
  expect(await serveMetrics({}, nothing, { log, signal: stop.signal })).toBeUndefined();
});

test("nobody is answered after the end", async () => {
  const server = await serve(() => Promise.resolve(""));
  stop.abort();
  await expect(fetch(`${server}/metrics`)).rejects.toThrow();
});
