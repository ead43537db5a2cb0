// SPDX-License-Identifier: Apache-2.0
// What is a probe told, and when?
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "@patchbay/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { serveHealth, type Health } from "./health.ts";

let stop: AbortController;
let health: Health;

beforeEach(async () => {
  stop = new AbortController();
  health = await serveHealth(0, createSilentLogger(), stop.signal);
});

afterEach(() => {
  stop.abort();
});

async function ask(path: string): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${String(health.port)}${path}`);
  return `${String(answer.status)} ${await answer.text()}`;
}

test("a service lives before it does its work, and then does", async () => {
  expect(await ask("/healthz")).toBe("200 ok");
  expect(await ask("/readyz")).toBe("503 not ready");
  health.ready();
  expect(await ask("/readyz?verbose")).toBe("200 ok");
});

test("nothing else is told", async () => {
  expect(await ask("/metrics")).toBe("404 not found");
});

test("a service that ends is asked no more", async () => {
  health.ready();
  stop.abort();
  await eventually(
    () =>
      ask("/readyz").then(
        (said) => said.startsWith("503"),
        () => true,
      ),
    { withinMs: 5000 },
  );
  await eventually(
    () =>
      ask("/healthz").then(
        () => false,
        () => true,
      ),
    { withinMs: 5000 },
  );
});

test("a port that is taken is told, and without one nobody listens", async () => {
  const log = createSilentLogger();
  await expect(serveHealth(health.port, log, stop.signal)).rejects.toMatchObject({
    code: "EADDRINUSE",
  });
  expect(await serveHealth(undefined, log, stop.signal)).toMatchObject({ port: undefined });
});
