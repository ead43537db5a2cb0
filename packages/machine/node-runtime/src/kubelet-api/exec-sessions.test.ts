// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/core";
import { createFakeContainerRuntime, createFakeExecPrograms } from "@patchbay/cri/testing";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createRuns } from "../testing/runs.ts";
import { ExecSessions, SESSIONS_MAX } from "./exec-sessions.ts";
import type { JoinedStream } from "./exec.ts";

const LEFTOVER = "a".repeat(64);

function setUp() {
  const clock = createFakeClock();
  const programs = createFakeExecPrograms();
  const runtime = createFakeContainerRuntime(clock);
  const stop = new AbortController();
  const deps = { programs, runtime, clock, log: createFakeLogger() };
  return { clock, programs, runtime, sessions: new ExecSessions(deps, stop.signal) };
}

/** A stream that a test ends. */
function aStream() {
  const { promise: over, resolve } = Promise.withResolvers<"ended" | "left">();
  let isClosed = false;
  const stream: JoinedStream = { over, close: () => (isClosed = true) };
  return { stream, end: resolve, isClosed: () => isClosed };
}

type Bench = ReturnType<typeof setUp>;

/** A session whose program, if any, runs at once. */
async function begin({ clock, programs, sessions }: Bench, program?: string) {
  const one = aStream();
  const begun = sessions.begin("c", () => {
    if (program !== undefined) programs.start("c", program);
    return Promise.resolve(one.stream);
  });
  await settle();
  if (program !== undefined) await begun;
  return { ...one, begun, pass: (ms: number) => clock.advance(ms) };
}

test("the program of a client that leaves is ended, and no other's", async () => {
  const bench = setUp();
  bench.programs.start("c", "a probe");
  const first = await begin(bench, "one");
  const second = await begin(bench, "two");
  first.end("left");
  await settle();
  await bench.clock.advance(1000);
  expect(await bench.programs.list("c")).toEqual(["a probe", "two"]);
  second.end("ended");
  await bench.clock.advance(10_000);
  expect(await bench.programs.list("c")).toEqual(["a probe", "two"]);
});

test("a program that ends when its input does is left alone", async () => {
  const bench = setUp();
  const kills: string[] = [];
  bench.programs.kill = (_, id) => Promise.resolve(void kills.push(id));
  const session = await begin(bench, "one");
  session.end("left");
  await settle();
  bench.programs.end("c", "one");
  await bench.clock.advance(5000);
  expect(kills).toEqual([]);
});

test("a program that begins when its client has left already is ended too", async () => {
  const bench = setUp();
  const session = await begin(bench);
  session.end("left");
  await bench.clock.advance(100);
  bench.programs.start("c", "late");
  await bench.clock.advance(200);
  await session.begun;
  await bench.clock.advance(1000);
  await settle();
  expect(await bench.programs.list("c")).toEqual([]);
});

test("a client that asks for no streams holds up the others for seconds only", async () => {
  const bench = setUp();
  const idle = await begin(bench);
  let isOpen = false;
  const next = bench.sessions.begin("c", () => Promise.resolve(void (isOpen = true)));
  await bench.clock.advance(5000);
  expect(isOpen).toBe(false);
  for (let seconds = 0; seconds < 10; seconds += 1) await bench.clock.advance(1000);
  await next;
  expect([isOpen, idle.isClosed()]).toEqual([true, true]);
});

test("a program that is over at once holds up nobody", async () => {
  const bench = setUp();
  const session = await begin(bench);
  session.end("ended");
  await bench.clock.advance(20);
  await session.begun;
  expect((await begin(bench, "next")).isClosed()).toBe(false);
});

test("a container has no more sessions than it may have, until one ends", async () => {
  const bench = setUp();
  const first = await begin(bench, "first");
  for (let index = 1; index < SESSIONS_MAX; index += 1) await begin(bench, `more-${String(index)}`);
  expect(bench.sessions.isFull("c")).toBe(true);
  first.end("ended");
  await settle();
  expect(bench.sessions.isFull("c")).toBe(false);
});

test("what cannot be opened holds no place, and is told", async () => {
  const { sessions } = setUp();
  for (let index = 0; index <= SESSIONS_MAX; index += 1) {
    await expect(sessions.begin("c", () => Promise.reject(new Error("away")))).rejects.toThrow();
  }
  expect(sessions.isFull("c")).toBe(false);
});

test("a runtime that tells of no programs has sessions all the same", async () => {
  const bench = setUp();
  const details = { call: "ListPids", status: "UNIMPLEMENTED", reason: "none" };
  bench.programs.list = () => Promise.reject(new AppError("CRI_FAILED", details));
  const session = await begin(bench, "one");
  session.end("left");
  await settle();
  expect(bench.sessions.isFull("c")).toBe(false);
});

test("what a process before this one has left is ended, what others have started is not", async () => {
  const bench = setUp();
  const id = await createRuns(bench.runtime, "/logs").run();
  bench.programs.start(id, LEFTOVER);
  bench.programs.start(id, "by-hand");
  await bench.sessions.endLeft();
  expect(await bench.programs.list(id)).toEqual(["by-hand"]);
});
