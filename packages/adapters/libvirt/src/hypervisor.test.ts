// SPDX-License-Identifier: Apache-2.0
import { isAppError, type Clock } from "@patchbay/base";
import type {
  ChildProcessHandle,
  ChildProgram,
  ChildStarter,
  HypervisorConnection,
} from "@patchbay/core/interfaces";
import { createFakeLogger, type FakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { createHypervisor, type HypervisorOptions, RestartBackoff } from "./hypervisor.ts";
import type { Beat, Reply, Request } from "./protocol.ts";

test("restarts a child at once, then after delays that grow to half a minute", () => {
  const restarts = new RestartBackoff();
  const delaysMs = [restarts.delayMs];
  for (let end = 0; end < 9; end += 1) {
    restarts.recordEnd(1000);
    delaysMs.push(restarts.delayMs);
  }
  expect(delaysMs).toEqual([0, 0, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
});

test("the end of a child that lived for a minute counts as the first", () => {
  const restarts = new RestartBackoff();
  for (let end = 0; end < 9; end += 1) restarts.recordEnd(1000);
  restarts.recordEnd(60_000);
  expect(restarts.delayMs).toBe(0);
  restarts.recordEnd(59_999);
  expect(restarts.delayMs).toBe(500);
});

const uri = { kind: "uri", uri: "test:///default" } as const;
const ignore = (): void => undefined;
let logger: FakeLogger;

/** A child whose answers the test gives; connections open at once. */
class ScriptedChild implements ChildProcessHandle {
  readonly pid = 1;
  readonly ended: Promise<string>;
  readonly requests: Request[] = [];
  /** Descriptors with their tokens. */
  readonly descriptors: (readonly [fd: number, token: number])[] = [];
  /** Open calls are answered only when set. */
  isAnswering = true;
  /** Beats are answered only when set. */
  isAlive = true;
  #listener: (message: unknown) => void = ignore;
  readonly #end: (reason: string) => void;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.ended = promise;
    this.#end = resolve;
  }

  send(message: unknown): void {
    const request = message as Request; // the parent sends nothing else
    this.requests.push(request);
    const opens = request.kind === "open" || request.kind === "openSocket";
    if (opens && this.isAnswering) {
      this.emit({ kind: "result", connection: request.connection, call: 0 });
    }
    if (request.kind === "beat" && this.isAlive) this.emit({ kind: "beat", eventLoopAgeMs: 0 });
  }

  emit(reply: Reply | Beat | { readonly kind: "nonsense" }): void {
    this.#listener(reply);
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#listener = listener;
  }

  sendDescriptor(fd: number, token: number): void {
    this.descriptors.push([fd, token]);
  }

  claimDescriptor(): never {
    throw new Error("not used here");
  }

  kill(): void {
    this.#end("SIGKILL");
  }
}

/** Time that passes when the test says so. */
class StepClock implements Clock {
  /** Since boot, milliseconds: longer than a child must run to count as healthy. */
  nowMs = 100_000;
  #waits: { readonly ms: number; readonly wake: () => void; readonly signal: AbortSignal }[] = [];

  now(): number {
    return 0;
  }

  monotonicMs(): number {
    return this.nowMs;
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    this.#waits.push({
      ms,
      signal,
      wake: () => {
        resolve(undefined);
      },
    });
    signal.addEventListener("abort", () => {
      reject(new Error("aborted"));
    });
    return promise;
  }

  /** Every wait of that length is over. */
  async pass(ms: number): Promise<void> {
    const over = this.#waits.filter((wait) => wait.ms === ms && !wait.signal.aborted);
    this.#waits = this.#waits.filter((wait) => !over.includes(wait));
    for (const wait of over) wait.wake();
    await settle();
  }
}

/** Lets everything run that waits for nothing but its turn. */
async function settle(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

let children: ScriptedChild[] = [];
let clock = new StepClock();
let hypervisor: ReturnType<typeof createHypervisor>;
/** How children were started, and why the next one does not start. */
let starts: ChildProgram[];
let startError: Error | undefined;

function makeHypervisor(
  options: Partial<HypervisorOptions> = {},
): ReturnType<typeof createHypervisor> {
  children = [];
  clock = new StepClock();
  logger = createFakeLogger();
  starts = [];
  startError = undefined;
  const starter: ChildStarter = {
    start: (how) => {
      starts.push(how);
      if (startError !== undefined) return Promise.reject(startError);
      const child = new ScriptedChild();
      children.push(child);
      return Promise.resolve(child);
    },
  };
  const times = { callTimeoutMs: 1000, openTimeoutMs: 2000, stuckAfterMs: 3000, beatMs: 4000 };
  return createHypervisor({ starter, clock, logger, ...times, stuckMax: 1, ...options });
}

function childAt(index: number): ScriptedChild {
  const child = children[index];
  if (child === undefined) throw new Error(`no child ${String(index)}`);
  return child;
}

/** The code with which it fails; to be taken before it does. */
function describeFailure(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "none",
    (error: unknown) => (isAppError(error) ? error.code : String(error)),
  );
}

/** Opens a connection and lets a call on it run into its deadline. */
async function abandonOne(): Promise<HypervisorConnection> {
  const connection = await hypervisor.open(uri);
  const failure = describeFailure(connection.findDomain("x"));
  await settle();
  await clock.pass(1000);
  expect(await failure).toBe("LIBVIRT_TIMED_OUT");
  return connection;
}

beforeEach(() => {
  hypervisor = makeHypervisor();
});

describe("hypervisor", () => {
  test("one child serves all connections", async () => {
    await hypervisor.open(uri);
    await hypervisor.open(uri);
    expect(children).toHaveLength(1);
  });

  test("sends one call at a time for a connection", async () => {
    const connection = await hypervisor.open(uri);
    const first = connection.findDomain("a");
    const second = connection.findDomain("b");
    await settle();
    const calls = (): readonly Request[] =>
      childAt(0).requests.filter((request) => request.kind === "call");
    expect(calls()).toHaveLength(1);
    childAt(0).emit({ kind: "result", connection: 1, call: 1 });
    await first;
    await settle();
    expect(calls()).toHaveLength(2);
    childAt(0).emit({ kind: "result", connection: 1, call: 2 });
    await second;
  });

  test("a call beyond its deadline ends its own connection only", async () => {
    const other = await hypervisor.open(uri);
    const connection = await abandonOne();
    expect(await connection.closed).toEqual({
      reason: "no answer to virDomainLookupByName",
      by: "daemon",
    });
    await expect(connection.findDomain("x")).rejects.toMatchObject({
      code: "LIBVIRT_CONNECTION_LOST",
    });
    const found = other.findDomain("x");
    await settle();
    childAt(0).emit({ kind: "result", connection: 1, call: 1 });
    expect(await found).toBeUndefined();
  });

  test("a migration has no deadline, and fails when its connection is lost", async () => {
    const connection = await hypervisor.open(uri);
    const ways = { peerUri: "qemu:peer", memoryUri: "unix:memory" };
    const moved = connection.migrateDomain("vm1", ways);
    await settle();
    await clock.pass(1000);
    childAt(0).emit({ kind: "result", connection: 1, call: 1 });
    await moved;
    const failure = describeFailure(connection.migrateDomain("vm1", ways));
    await settle();
    childAt(0).emit({ kind: "lost", connection: 1, reason: "libvirt closed it" });
    expect(await failure).toBe("LIBVIRT_CONNECTION_LOST");
  });

  test("an open beyond its deadline fails", async () => {
    await hypervisor.open(uri);
    childAt(0).isAnswering = false;
    const failure = describeFailure(hypervisor.open(uri));
    await settle();
    await clock.pass(2000);
    expect(await failure).toBe("LIBVIRT_TIMED_OUT");
  });

  test("a child that dies fails every call, and the next open starts another", async () => {
    const connection = await hypervisor.open(uri);
    const failure = describeFailure(connection.findDomain("x"));
    await settle();
    childAt(0).kill();
    expect(await failure).toBe("LIBVIRT_CONNECTION_LOST");
    expect(await connection.closed).toEqual({
      reason: "the libvirt child ended: SIGKILL",
      by: "client",
    });
    await hypervisor.open(uri);
    expect(children).toHaveLength(2);
  });

  test("too many hanging connections replace the child", async () => {
    await abandonOne();
    await abandonOne();
    await clock.pass(3000);
    expect(await childAt(0).ended).toBe("SIGKILL");
    await hypervisor.open(uri);
    expect(children).toHaveLength(2);
  });

  test("connections that end in time are not counted as hanging", async () => {
    await abandonOne();
    await abandonOne();
    childAt(0).emit({ kind: "ended", connection: 1 });
    await clock.pass(3000);
    await hypervisor.open(uri);
    expect(children).toHaveLength(1);
  });

  test("connections that only send messages still count as hanging", async () => {
    await abandonOne();
    await abandonOne();
    childAt(0).emit({ kind: "result", connection: 1, call: 1 });
    await clock.pass(3000);
    await hypervisor.open(uri);
    expect(children).toHaveLength(2);
  });

  test("sends nothing to a child that has ended", async () => {
    await hypervisor.open(uri);
    childAt(0).kill();
    await settle();
    const { length } = childAt(0).requests;
    await clock.pass(4000);
    expect(childAt(0).requests).toHaveLength(length);
  });

  test("replaces a child that violates the protocol", async () => {
    const connection = await hypervisor.open(uri);
    childAt(0).emit({ kind: "nonsense" });
    expect((await connection.closed).reason).toContain("SIGKILL");
    expect(logger.lines).toContainEqual(
      expect.objectContaining({
        message: "replacing the libvirt child",
        fields: { reason: "it broke the protocol" },
      }),
    );
    await hypervisor.open(uri);
    expect(children).toHaveLength(2);
  });

  test("replaces a child that does not answer heartbeats", async () => {
    const connection = await hypervisor.open(uri);
    for (let beat = 0; beat < 3; beat += 1) await clock.pass(4000);
    await hypervisor.open(uri);
    expect(children).toHaveLength(1);
    childAt(0).isAlive = false;
    await clock.pass(4000);
    await clock.pass(4000);
    await clock.pass(4000);
    expect((await connection.closed).reason).toContain("SIGKILL");
    await hypervisor.open(uri);
    expect(children).toHaveLength(2);
  });

  test("restarts a child that repeatedly dies after a delay", async () => {
    for (const index of [0, 1]) {
      await hypervisor.open(uri);
      childAt(index).kill();
      await settle();
    }
    const third = hypervisor.open(uri);
    await settle();
    expect(children).toHaveLength(2);
    expect(logger.lines.at(-1)).toMatchObject({ level: "warn", fields: { pauseMs: 500 } });
    await clock.pass(500);
    await third;
    expect(children).toHaveLength(3);
  });

  test("restarts a child that ran for a minute at once, however often it ends", async () => {
    for (const index of [0, 1, 2]) {
      await hypervisor.open(uri);
      clock.nowMs += 60_000;
      childAt(index).kill();
      await settle();
    }
    await hypervisor.open(uri);
    expect(children).toHaveLength(4);
  });

  test("retries after a delay when a child cannot be started", async () => {
    startError = new Error("no memory");
    for (const attempt of [1, 2]) {
      expect(await describeFailure(hypervisor.open(uri))).toBe("LIBVIRT_UNREACHABLE");
      expect(starts).toHaveLength(attempt);
    }
    const third = describeFailure(hypervisor.open(uri));
    await settle();
    expect(starts).toHaveLength(2);
    await clock.pass(500);
    await third;
    expect(starts).toHaveLength(3);
  });

  test("closing the hypervisor ends the wait for a start", async () => {
    for (const index of [0, 1]) {
      await hypervisor.open(uri);
      childAt(index).kill();
      await settle();
    }
    const third = describeFailure(hypervisor.open(uri));
    await settle();
    await hypervisor.close();
    expect(await third).toBe("LIBVIRT_UNREACHABLE");
  });

  test("rejects an open after it was closed", async () => {
    const connection = await hypervisor.open(uri);
    await hypervisor.close();
    expect((await connection.closed).reason).toContain("SIGKILL");
    await expect(hypervisor.open(uri)).rejects.toMatchObject({ code: "LIBVIRT_UNREACHABLE" });
  });

  test("opens a socket by its descriptor, under the connection's number", async () => {
    await hypervisor.open(uri);
    await hypervisor.open({ kind: "socket", fd: 33 });
    expect(childAt(0).descriptors).toEqual([[33, 2]]);
    expect(childAt(0).requests.filter(({ kind }) => kind !== "beat")).toEqual([
      { kind: "open", connection: 1, uri: "test:///default" },
      { kind: "openSocket", connection: 2 },
    ]);
  });

  test("an open has the caller's deadline if set", async () => {
    await hypervisor.open(uri);
    childAt(0).isAnswering = false;
    const failure = describeFailure(hypervisor.open(uri, { timeoutMs: 77 }));
    await settle();
    await clock.pass(77);
    expect(await failure).toBe("LIBVIRT_TIMED_OUT");
  });

  test("delivers replies to their own connection, and drops those of unknown connections", async () => {
    const first = await hypervisor.open(uri);
    const second = await hypervisor.open(uri);
    const observed: string[] = [];
    first.onEvent(({ domain }) => observed.push(`first ${domain}`));
    second.onEvent(({ domain }) => observed.push(`second ${domain}`));
    for (const connection of [1, 2, 3]) {
      const event = { kind: "agentConnected", domain: `d${String(connection)}` } as const;
      childAt(0).emit({ kind: "event", connection, event });
    }
    expect(observed).toEqual(["first d1", "second d2"]);
  });

  test.each([
    { name: "the launchers' user", identity: { uid: 107, gid: 107 } },
    { name: "the parent's user", identity: undefined },
  ])("a child runs as $name, without any user configuration", async ({ identity }) => {
    const own = makeHypervisor(identity === undefined ? {} : { identity });
    await own.open(uri);
    const [start] = starts;
    expect(start?.module).toMatch(/\/child\.ts$/);
    expect(start).toMatchObject({ readyTimeoutMs: 15_000, env: { LIBVIRT_AUTOSTART: "0" } });
    expect(start?.identity).toEqual(identity);
    expect(logger.lines).toMatchObject([{ level: "info", fields: { pid: 1 } }]);
  });

  test("reports a child that does not start, and the next open retries", async () => {
    startError = new Error("no memory");
    await expect(hypervisor.open(uri)).rejects.toMatchObject({
      code: "LIBVIRT_UNREACHABLE",
      details: { message: "no memory" },
      cause: startError,
    });
    startError = undefined;
    await hypervisor.open(uri);
    expect(starts).toHaveLength(2);
  });

  test("logs the reason of a child's end unless the hypervisor is closed", async () => {
    await hypervisor.open(uri);
    childAt(0).kill();
    await settle();
    expect(logger.lines.map(({ message }) => message)).toContain("the libvirt child ended");
    await hypervisor.open(uri);
    await hypervisor.close();
    expect(logger.lines.filter(({ level }) => level === "warn")).toMatchObject([
      { message: "the libvirt child ended", fields: { reason: "SIGKILL" } },
    ]);
  });

  test("tolerates hanging connections up to the limit", async () => {
    await abandonOne();
    await clock.pass(3000);
    await hypervisor.open(uri);
    expect(children).toHaveLength(1);
  });

  test("does not count connections that hung and then ended", async () => {
    await abandonOne();
    await clock.pass(3000);
    childAt(0).emit({ kind: "ended", connection: 1 });
    await abandonOne();
    await clock.pass(3000);
    await hypervisor.open(uri);
    expect(children).toHaveLength(1);
  });

  test("the end of a replaced child does not affect the next child", async () => {
    await hypervisor.open(uri);
    childAt(0).emit({ kind: "nonsense" });
    const second = await hypervisor.open(uri);
    await settle();
    const found = second.findDomain("x");
    await settle();
    childAt(1).emit({ kind: "result", connection: 2, call: 1 });
    expect(await found).toBeUndefined();
    await hypervisor.open(uri);
    expect(children).toHaveLength(2);
  });

  test("closing an unused hypervisor starts no child", async () => {
    await hypervisor.close();
    expect(starts).toEqual([]);
  });
});
