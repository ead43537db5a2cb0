// SPDX-License-Identifier: Apache-2.0
// Watches of a server in which nothing happens, and of one that restarts. Time is the test's.
import type { ServerResponse } from "node:http";
import { PODS } from "@patchbay/api";
import { type FakeClock, createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createKubeClient, type KubeClient } from "../client.ts";
import {
  eventually,
  failure,
  json,
  startScriptedServer,
  type Answer,
  type ScriptedServer,
} from "../testing/scripted-server.ts";

const MINUTE_MS = 60_000;
const list = json(200, {
  kind: "PodList",
  apiVersion: "v1",
  metadata: { resourceVersion: "5" },
  items: [],
});

interface Watched {
  readonly server: ScriptedServer;
  readonly clock: FakeClock;
  /** What the server is watched with now; the last one is open. */
  readonly watches: readonly ServerResponse[];
  /** How often something was listed. */
  readonly lists: () => number;
  readonly names: readonly string[];
  readonly warnings: () => number;
  /** Answers the next watch. */
  readonly answerNext: (answer: Answer) => void;
  readonly stop: () => Promise<void>;
}

let watched: Watched;

function nextRequest(client: KubeClient, names: string[]): () => void {
  const subscription = client.reflect(PODS).subscribe((reflection) => {
    if (reflection.kind === "applied") names.push(reflection.object.metadata.name);
  });
  return () => {
    subscription.unsubscribe();
  };
}

async function setUp(): Promise<Watched> {
  const watches: ServerResponse[] = [];
  const answers: Answer[] = [];
  let lists = 0;
  const server = await startScriptedServer((response, request) => {
    if (!request.query.has("watch")) {
      lists += 1;
      list(response, request);
      return;
    }
    watches.push(response);
    const answer = answers.shift();
    if (answer !== undefined) answer(response, request);
    else response.flushHeaders();
  });
  const clock = createFakeClock();
  const logger = createFakeLogger();
  const client = createKubeClient(server.config, { logger, clock, random: () => 0 });
  const names: string[] = [];
  const end = nextRequest(client, names);
  const stop = async (): Promise<void> => {
    end();
    await client.close();
    await server[Symbol.asyncDispose]();
  };
  const warnings = (): number => logger.lines.filter(({ level }) => level === "warn").length;
  const answerNext = (answer: Answer): void => {
    answers.push(answer);
  };
  return { server, clock, watches, lists: () => lists, names, warnings, answerNext, stop };
}

function emit(response: ServerResponse | undefined, name: string, resourceVersion: string): void {
  const object = { metadata: { namespace: "ns", name, uid: name, resourceVersion } };
  response?.write(`${JSON.stringify({ type: "ADDED", object })}\n`);
}

/** Moves the test's clock and all timers, also those of the HTTP library. */
async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  await watched.clock.advance(ms);
}

/** The wait that a broken watch keeps now; the watch's own end is later. */
async function waitNow(): Promise<number> {
  const { clock } = watched;
  const remainingMs = (): number => (clock.dueMs[0] ?? Infinity) - clock.monotonicMs();
  await eventually(() => remainingMs() <= 10_000);
  return remainingMs();
}

beforeAll(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
});

beforeEach(async () => {
  watched = await setUp();
  await eventually(() => watched.watches.length === 1);
});

afterEach(async () => {
  await watched.stop();
});

afterAll(() => {
  vi.useRealTimers();
});

test("does not interrupt a silent watch until the server ends it, and then resumes at once", async () => {
  const { watches, names } = watched;
  await pass(5 * MINUTE_MS);
  expect(watches).toHaveLength(1);
  emit(watches[0], "first", "6");
  await eventually(() => names.length === 1);
  watches[0]?.end();
  await eventually(() => watches.length === 2); // without that any time passes
  emit(watches[1], "second", "7");
  await eventually(() => names.length === 2);
  expect(watched.lists()).toBe(1);
});

test("does not treat ten silent minutes as a fault", async () => {
  const { watches, names, server } = watched;
  for (let minute = 0; minute < 10; minute += 1) {
    await pass(MINUTE_MS);
    if (minute === 4) watches[0]?.end(); // as it was asked to
    await eventually(() => watches.length === (minute < 4 ? 1 : 2));
  }
  emit(watches[1], "late", "6");
  await eventually(() => names.length === 1);
  const requested = server.requests.filter(({ query }) => query.has("watch"));
  expect(requested.map(({ query }) => query.get("timeoutSeconds"))).toEqual(["300", "300"]);
  expect(requested.map(({ query }) => query.get("resourceVersion"))).toEqual(["5", "5"]);
  expect(watched.lists()).toBe(1);
  expect(watched.warnings()).toBe(0);
});

test("reopens a watch that the server forgets to end", async () => {
  await pass(330_000);
  await eventually(() => watched.watches.length === 2);
  expect(watched.lists()).toBe(1);
});

test("reconnects to a restarted server after one short delay, and lists at once", async () => {
  const { server, watches, names, answerNext } = watched;
  await pass(MINUTE_MS);
  await server.stop();
  const waits: number[] = [];
  for (let attempt = 0; attempt < 6; attempt += 1) {
    waits.push(await waitNow());
    if (attempt === 5) {
      await server.restart();
      answerNext(failure(410, "Expired"));
    }
    await pass(waits.at(-1) ?? 0);
  }
  expect(waits).toEqual([800, 1600, 3200, 6400, 10_000, 10_000]);
  await eventually(() => watches.length === 3); // refused with 410, listed, watched: no time passes between
  expect(watched.lists()).toBe(2);
  emit(watches[2], "after", "9");
  await eventually(() => names.length === 1);

  await pass(MINUTE_MS);
  server.cut();
  expect(await waitNow()).toBe(800); // what went before is over
});

test("a response with 200 ends the backoff even without events", async () => {
  const { server, watches } = watched;
  for (let round = 0; round < 5; round += 1) {
    await pass(MINUTE_MS);
    server.cut();
    expect(await waitNow()).toBe(800);
    await pass(800);
    await eventually(() => watches.length === round + 2);
  }
  expect(watched.warnings()).toBe(0);
});

test("backs off from a server that ends each watch at once", async () => {
  const { watches, answerNext } = watched;
  for (let i = 0; i < 20; i += 1) answerNext((response) => response.end());
  watches[0]?.end();
  const waits: number[] = [];
  for (let round = 0; round < 4; round += 1) {
    waits.push(await waitNow());
    await pass(waits.at(-1) ?? 0);
  }
  expect(waits).toEqual([800, 1600, 3200, 6400]);
});

test("backs off from a server that rejects each version as too old", async () => {
  const { watches, answerNext } = watched;
  for (let i = 0; i < 20; i += 1) answerNext(failure(410, "Expired"));
  watches[0]?.end();
  const waits: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    waits.push(await waitNow());
    await pass(waits.at(-1) ?? 0);
  }
  expect(waits).toEqual([800, 1600, 3200]);
});
