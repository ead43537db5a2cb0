// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";
import { createFakeClock, type FakeClock } from "@patchbay/os/testing";
import type { ServerWritableStream } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { watchEvents } from "./events.ts";
import { openEndpoint, type Endpoint } from "./grpc.ts";
import { ScriptedRuntime, wallClock } from "./testing/scripted-runtime.ts";

/** A busy machine is no failure. */
const WITHIN = { timeout: 60_000 };

const CRI = "runtime.v1.RuntimeService";
const EVENTS = "containerd.services.events.v1.Events";

let stop: AbortController;
let changes: (string | undefined)[];
let open: { close(): void }[];
beforeEach(() => {
  stop = new AbortController();
  changes = [];
  open = [];
});
afterEach(() => {
  stop.abort(new Error("the test is over"));
  for (const one of open) one.close();
});

async function serve(services: readonly string[]): Promise<ScriptedRuntime> {
  const server = new ScriptedRuntime(services);
  server.answers["Version"] = () => ({ runtimeName: "one", runtimeVersion: "1" });
  await server.start();
  open.push(server);
  return server;
}

function watch({ address }: ScriptedRuntime, clock: Clock): void {
  const endpoint: Endpoint = openEndpoint(address, wallClock);
  open.push(endpoint);
  const deps = { clock, endpoint: () => Promise.resolve(endpoint) };
  watchEvents(deps, (id) => void changes.push(id), stop.signal);
}

/** Waits until just this was told since the last time. */
async function expectChanges(...want: readonly (string | undefined)[]): Promise<void> {
  await vi.waitFor(() => {
    expect(changes).toEqual(want);
  }, WITHIN);
  changes.length = 0;
}

/** The clock's sleepers, once there are so many; then it moves on. */
async function pass(clock: FakeClock, ms: number): Promise<void> {
  await vi.waitFor(() => {
    expect(clock.dueMs.length).toBeGreaterThan(0);
  }, WITHIN);
  await clock.advance(ms);
}

function envelope(topic: string, id: string): object {
  return { topic, event: { value: { id } } };
}

test("prefers containerd's own events, and repeats starts and ends later", async () => {
  const server = await serve([CRI, EVENTS]);
  let stream: ServerWritableStream<object, object> | undefined;
  server.streams["Subscribe"] = (its) => {
    stream = its;
  };
  const clock = createFakeClock();
  watch(server, clock);
  await expectChanges(undefined);
  expect(server.calls[0]).toEqual({
    method: "Subscribe",
    request: {
      filters: ["/tasks/start", "/tasks/delete", "/containers/delete"].map(
        (topic) => `namespace==k8s.io,topic=="${topic}"`,
      ),
    },
  });
  stream?.write(envelope("/tasks/start", "a"));
  stream?.write(envelope("/containers/delete", "b"));
  await expectChanges("a", "b");
  for (const ms of [100, 1000, 5000, 30_000]) {
    await pass(clock, ms);
    await expectChanges("a");
  }
  stream?.write({ topic: "/tasks/start" });
  stream?.write(envelope("/tasks/delete", "c"));
  await expectChanges("c");
  await pass(clock, 100);
  await expectChanges("c");
  await pass(clock, 1000);
  await expectChanges("c");
  expect(server.calls.filter(({ method }) => method === "GetContainerEvents")).toEqual([]);
});

test("falls back to CRI events, and reports a change of everything after each end of the stream", async () => {
  const server = await serve([CRI]);
  const streams: ServerWritableStream<object, object>[] = [];
  server.streams["GetContainerEvents"] = (its) => void streams.push(its);
  const clock = createFakeClock();
  watch(server, clock);
  await vi.waitFor(() => {
    expect(streams).toHaveLength(1);
  }, WITHIN);
  streams[0]?.write({ containerId: "a", containerEventType: "CONTAINER_STARTED_EVENT" });
  await vi.waitFor(() => {
    expect(changes.at(-1)).toBe("a");
  }, WITHIN);
  changes.length = 0;
  streams[0]?.end();
  await pass(clock, 100);
  await expectChanges(undefined);
  expect(streams).toHaveLength(2);
});

test("polls a runtime without events with growing delays of up to ten seconds", async () => {
  const server = await serve([CRI]);
  server.streams["GetContainerEvents"] = (stream) => {
    stream.end();
  };
  const clock = createFakeClock();
  watch(server, clock);
  const pausesMs: number[] = [];
  for (let round = 0; round < 9; round += 1) {
    await vi.waitFor(() => {
      expect(clock.dueMs).toHaveLength(1);
    }, WITHIN);
    const ms = (clock.dueMs[0] ?? 0) - clock.now();
    pausesMs.push(ms);
    changes.length = 0;
    await clock.advance(ms);
    await vi.waitFor(() => {
      expect(changes).toContain(undefined);
    }, WITHIN);
  }
  expect(pausesMs).toEqual([100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
});

test("retries an unavailable runtime at least every second", async () => {
  const server = await serve([CRI, EVENTS]);
  server.streams["Subscribe"] = () => undefined;
  server.stop();
  const clock = createFakeClock();
  watch(server, clock);
  for (const ms of [100, 200, 400, 800, 1000, 1000]) {
    await vi.waitFor(() => {
      expect(clock.dueMs.map((due) => due - clock.now())).toEqual([ms]);
    }, WITHIN);
    await clock.advance(ms);
  }
  expect(changes).toEqual([]);
  await server.start();
  await vi.waitFor(async () => {
    await clock.advance(1000);
    expect(changes).toEqual([undefined]);
  }, WITHIN);
});
