// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import { createFakeContainerRuntime, createFakeExecPrograms } from "@patchbay/cri/testing";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createRuns } from "../testing/runs.ts";
import { ExecSessions, SESSIONS_MAX, type JoinedStream } from "./exec-streams.ts";

const LEFTOVER = "a".repeat(64);

function setUp() {
  const clock = createFakeClock();
  const programs = createFakeExecPrograms();
  const runtime = createFakeContainerRuntime(clock);
  const stop = new AbortController();
  const log = createFakeLogger();
  const sessions = new ExecSessions({ programs, runtime, clock, log }, stop.signal);
  return { clock, programs, runtime, stop, log, sessions };
}

/** A stream that a test ends. */
function aStream() {
  const { promise: closed, resolve } = Promise.withResolvers<"ended" | "left">();
  let isClosed = false;
  const stream: JoinedStream = { closed, close: () => (isClosed = true) };
  return { stream, end: resolve, isClosed: () => isClosed };
}

type Bench = ReturnType<typeof setUp>;

/** A session whose program, if any, runs at once. */
async function runSession({ clock, programs, sessions }: Bench, program?: string) {
  const one = aStream();
  const begun = sessions.runSession("c", () => {
    if (program !== undefined) programs.start("c", program);
    return Promise.resolve(one.stream);
  });
  await settle();
  if (program !== undefined) await begun;
  return { ...one, begun, pass: (ms: number) => clock.advance(ms) };
}

test("ends the program of a client that disconnects, and no other program", async () => {
  const bench = setUp();
  bench.programs.start("c", "a probe");
  const first = await runSession(bench, "one");
  const second = await runSession(bench, "two");
  first.end("left");
  await settle();
  await bench.clock.advance(1000);
  expect(await bench.programs.list("c")).toEqual(["a probe", "two"]);
  second.end("ended");
  await bench.clock.advance(10_000);
  expect(await bench.programs.list("c")).toEqual(["a probe", "two"]);
});

test("does not kill a program that ends with its input", async () => {
  const bench = setUp();
  const kills: string[] = [];
  bench.programs.kill = (_, id) => Promise.resolve(void kills.push(id));
  const session = await runSession(bench, "one");
  session.end("left");
  await settle();
  bench.programs.end("c", "one");
  await bench.clock.advance(5000);
  expect(kills).toEqual([]);
});

test("also ends a program that starts after its client disconnected", async () => {
  const bench = setUp();
  const session = await runSession(bench);
  session.end("left");
  await bench.clock.advance(100);
  bench.programs.start("c", "late");
  await bench.clock.advance(200);
  await session.begun;
  await bench.clock.advance(1000);
  await settle();
  expect(await bench.programs.list("c")).toEqual([]);
});

test("a client that opens no streams delays others only for seconds", async () => {
  const bench = setUp();
  const idle = await runSession(bench);
  let isOpen = false;
  const next = bench.sessions.runSession("c", () => Promise.resolve(void (isOpen = true)));
  await bench.clock.advance(5000);
  expect(isOpen).toBe(false);
  for (let seconds = 0; seconds < 10; seconds += 1) await bench.clock.advance(1000);
  await next;
  expect([isOpen, idle.isClosed()]).toEqual([true, true]);
});

test("a program that ends at once delays no other session", async () => {
  const bench = setUp();
  const session = await runSession(bench);
  session.end("ended");
  await bench.clock.advance(20);
  await session.begun;
  expect((await runSession(bench, "next")).isClosed()).toBe(false);
});

test("limits the sessions of a container until one ends", async () => {
  const bench = setUp();
  const first = await runSession(bench, "first");
  for (let index = 1; index < SESSIONS_MAX; index += 1)
    await runSession(bench, `more-${String(index)}`);
  expect(bench.sessions.isFull("c")).toBe(true);
  first.end("ended");
  await settle();
  expect(bench.sessions.isFull("c")).toBe(false);
});

test("a failure to open a session is rethrown and occupies no slot", async () => {
  const { sessions } = setUp();
  for (let index = 0; index <= SESSIONS_MAX; index += 1) {
    await expect(
      sessions.runSession("c", () => Promise.reject(new Error("away"))),
    ).rejects.toThrow();
  }
  expect(sessions.isFull("c")).toBe(false);
});

test("runs sessions with a runtime that cannot list programs", async () => {
  const bench = setUp();
  const details = { call: "ListPids", status: "UNIMPLEMENTED", reason: "none" };
  bench.programs.list = () => Promise.reject(new AppError("CRI_FAILED", details));
  const session = await runSession(bench, "one");
  session.end("left");
  await settle();
  expect(bench.sessions.isFull("c")).toBe(false);
});

test("ends programs of a previous process, not those that other tools started", async () => {
  const bench = setUp();
  const id = await createRuns(bench.runtime, "/logs").run();
  bench.programs.start(id, LEFTOVER);
  bench.programs.start(id, "by-hand");
  await bench.sessions.killOrphans();
  expect(await bench.programs.list(id)).toEqual(["by-hand"]);
});

test("does not check containers that have ended", async () => {
  const bench = setUp();
  const runs = createRuns(bench.runtime, "/logs");
  const id = await runs.run();
  bench.programs.start(id, LEFTOVER);
  bench.runtime.endContainer(id, { exitCode: 0 });
  await bench.sessions.killOrphans();
  expect(await bench.programs.list(id)).toEqual([LEFTOVER]);
});

test.each(["x".repeat(64), "a".repeat(63), "a".repeat(65), `${LEFTOVER}\n`])(
  "does not treat %j as a program of a session",
  async (program) => {
    const bench = setUp();
    const id = await createRuns(bench.runtime, "/logs").run();
    bench.programs.start(id, program);
    await bench.sessions.killOrphans();
    expect(await bench.programs.list(id)).toEqual([program]);
  },
);

test("an unavailable runtime at the start delays nothing and is logged", async () => {
  const bench = setUp();
  bench.runtime.stop();
  await bench.sessions.killOrphans();
  expect(bench.log.lines).toMatchObject([
    { level: "warn", message: "started exec programs cannot be found" },
  ]);
});

test("a runtime that cannot list programs has no orphans at the start", async () => {
  const bench = setUp();
  await createRuns(bench.runtime, "/logs").run();
  bench.programs.list = () => Promise.reject(new Error("unimplemented"));
  await bench.sessions.killOrphans();
  expect(bench.log.lines).toMatchObject([
    {
      level: "debug",
      message: "exec programs cannot be listed",
      fields: { reason: "unimplemented" },
    },
  ]);
});

/** A session whose client leaves although its program does not end. */
async function stubborn(bench: Bench): Promise<string[]> {
  const kills: string[] = [];
  bench.programs.kill = (container, id) => Promise.resolve(void kills.push(`${container} ${id}`));
  const session = await runSession(bench, "one");
  session.end("left");
  await settle();
  return kills;
}

test("kills a program once a second for twenty times, then reports it", async () => {
  const bench = setUp();
  const kills = await stubborn(bench);
  await bench.clock.advance(499);
  expect(kills).toEqual([]);
  await bench.clock.advance(1);
  expect(kills).toEqual(["c one"]);
  await bench.clock.advance(999);
  expect(kills).toHaveLength(1);
  await bench.clock.advance(1);
  expect(kills).toHaveLength(2);
  for (let seconds = 0; seconds < 30; seconds += 1) await bench.clock.advance(1000);
  expect(kills).toHaveLength(20);
  expect(bench.log.lines.at(-1)).toMatchObject({
    level: "warn",
    message: "exec program does not end",
    fields: { object: "c" },
  });
});

test("does not report a program that has ended", async () => {
  const bench = setUp();
  await stubborn(bench);
  await bench.clock.advance(500);
  bench.programs.end("c", "one");
  for (let seconds = 0; seconds < 30; seconds += 1) await bench.clock.advance(1000);
  expect(bench.log.lines.map(({ message }) => message)).toEqual([
    "exec program killed because its client disconnected",
  ]);
});

test("kills a program even if the runtime cannot list programs", async () => {
  const bench = setUp();
  const kills = await stubborn(bench);
  bench.programs.list = () => Promise.reject(new Error("away"));
  await bench.clock.advance(500);
  expect(kills).toEqual(["c one"]);
});

test("retries a failed kill", async () => {
  const bench = setUp();
  await stubborn(bench);
  let tries = 0;
  bench.programs.kill = () => {
    tries += 1;
    return Promise.reject(new Error("no such process"));
  };
  await bench.clock.advance(500);
  await bench.clock.advance(1000);
  expect(tries).toBe(2);
  expect(bench.log.lines).toContainEqual({
    level: "debug",
    message: "exec program cannot be killed",
    fields: { object: "c", reason: "no such process" },
  });
});

test.each([{ afterMs: 0 }, { afterMs: 500 }])(
  "kills nothing after the node stops $afterMs ms later",
  async ({ afterMs }) => {
    const bench = setUp();
    const kills = await stubborn(bench);
    await bench.clock.advance(afterMs);
    const before = kills.length;
    bench.stop.abort();
    for (let seconds = 0; seconds < 30; seconds += 1) await bench.clock.advance(1000);
    expect(kills).toHaveLength(before);
    expect(bench.log.lines.filter(({ level }) => level === "warn")).toEqual([]);
  },
);

test("a waiting session ends with the node", async () => {
  const bench = setUp();
  const session = await runSession(bench);
  bench.stop.abort();
  await session.begun;
  expect(session.isClosed()).toBe(true);
});

test("starts no program for a client that disconnects before its stream opens", async () => {
  const bench = setUp();
  await bench.sessions.runSession("c", () => Promise.resolve(undefined));
  await bench.clock.advance(10_000);
  expect(bench.sessions.isFull("c")).toBe(false);
  expect(bench.clock.dueMs).toEqual([]);
});

test("polls for programs at increasing intervals of at most 200 ms", async () => {
  const bench = setUp();
  const looks: number[] = [];
  bench.programs.list = () => {
    looks.push(bench.clock.monotonicMs());
    return Promise.resolve([]);
  };
  const session = await runSession(bench);
  for (let ms = 0; ms < 700; ms += 10) await bench.clock.advance(10);
  expect(looks).toEqual([0, 0, 10, 30, 70, 150, 310, 510]);
  session.end("ended");
  await bench.clock.advance(200);
  await session.begun;
});

test.each([
  { name: "at once", leavesMs: 0, waitMs: 900 },
  { name: "near the end of the total time", leavesMs: 9500, waitMs: 400 },
])(
  "waits a second for the program of a client that disconnects $name, ten seconds in total",
  async ({ leavesMs, waitMs }) => {
    const bench = setUp();
    const session = await runSession(bench);
    const pass = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 100) await bench.clock.advance(100);
    };
    await pass(leavesMs);
    session.end("left");
    await pass(waitMs);
    expect(session.isClosed()).toBe(false);
    await pass(300);
    expect(session.isClosed()).toBe(true);
  },
);

test("counts sessions per container", async () => {
  const bench = setUp();
  for (let index = 0; index < SESSIONS_MAX; index += 1)
    await runSession(bench, `p-${String(index)}`);
  expect([bench.sessions.isFull("c"), bench.sessions.isFull("d")]).toEqual([true, false]);
});
