// SPDX-License-Identifier: Apache-2.0
import { AppError, type Clock } from "@patchbay/base";
import type { Launchers } from "@patchbay/core/interfaces";
import { createFakeHypervisor, type FakeDaemon } from "@patchbay/libvirt/testing";
import { createFakeLinkWatch } from "@patchbay/podnet/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import { withBackoff } from "./backoff.ts";
import { createSessions, type Session, type Sessions } from "./sessions.ts";
import { createFakeVhostSockets } from "@patchbay/os/testing";

const POD = { uid: "pod-uid", namespace: "ns1", name: "launcher" };
const MINUTE_MS = 60_000;
const late = new AppError("LIBVIRT_TIMED_OUT", { call: "virDomainLookupByName", timeoutMs: 1 });

let nowMs = 0;
let sleepers: { readonly dueMs: number; readonly wake: () => void }[] = [];
let daemon: FakeDaemon;
let sessions: Sessions;

const clock: Clock = {
  now: () => nowMs,
  monotonicMs: () => nowMs,
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      sleepers.push({ dueMs: nowMs + ms, wake: resolve });
      signal.addEventListener("abort", () => {
        reject(new Error("aborted"));
      });
    }),
};

const launchers: Launchers = {
  open: () =>
    Promise.resolve({
      socketFd: 7,
      directoryFd: 9,
      netns: { fd: 8, inode: "42" },
      ended: new Promise<void>(() => undefined),
      close: () => undefined,
    }),
  watch: () => undefined,
};

const ignore = { wake: () => undefined, onEvent: () => undefined };
const linkWatch = createFakeLinkWatch();

async function settle(): Promise<void> {
  await new Promise(setImmediate);
}

async function pass(ms: number): Promise<void> {
  nowMs += ms;
  for (const { dueMs, wake } of sleepers) if (dueMs <= nowMs) wake();
  await settle();
}

function look(session: Session): Promise<unknown> {
  return session.connection.findDomain("vm1");
}

/** The error code of a call; undefined while the launcher backs off. */
async function outcome(pod = POD): Promise<string> {
  if (sessions.backoffMs(pod) > 0) return "left alone";
  return sessions.use(pod, ignore, look).then(
    () => "seen",
    (error: unknown) => (error instanceof AppError ? error.code : String(error)),
  );
}

/** Loses the session, and returns the milliseconds until the launcher is used again. */
async function pauseAfterLoss(): Promise<number> {
  daemon.dropConnections("libvirt closed it");
  await settle();
  const startMs = nowMs;
  while ((await outcome()) !== "seen") nowMs += 10;
  return nowMs - startMs;
}

beforeEach(() => {
  nowMs = 0;
  sleepers = [];
  const hypervisor = createFakeHypervisor();
  daemon = hypervisor.daemonAt({ kind: "socket", fd: 7 });
  const inner = createSessions({
    launchers,
    hypervisor,
    linkWatch,
    vhostSockets: createFakeVhostSockets(),
    log: createSilentLogger(),
  });
  sessions = withBackoff(inner, clock);
});

describe("a launcher that drops connections", () => {
  test("is backed off from with delays that grow to half a minute", async () => {
    await outcome();
    const pauses: number[] = [];
    for (let turn = 0; turn < 11; turn += 1) pauses.push(await pauseAfterLoss());
    expect(pauses[0]).toBeLessThanOrEqual(100);
    for (const [index, pauseMs] of pauses.entries()) {
      const fullMs = Math.min(30_000, 100 * 2 ** index);
      expect(pauseMs).toBeGreaterThanOrEqual(0.8 * fullMs);
      expect(pauseMs).toBeLessThanOrEqual(fullMs + 10);
    }
  });

  test("once in a while starts with the first delay again", async () => {
    await outcome();
    for (let turn = 0; turn < 5; turn += 1) await pauseAfterLoss();
    nowMs += MINUTE_MS;
    expect(await pauseAfterLoss()).toBeLessThanOrEqual(100);
  });

  test("does not delay others", async () => {
    await outcome();
    daemon.dropConnections("libvirt closed it");
    await settle();
    expect(await outcome()).toBe("left alone");
    expect(await outcome({ ...POD, uid: "other" })).toBe("seen");
  });

  test("is forgotten with its pod", async () => {
    await outcome();
    daemon.dropConnections("libvirt closed it");
    await settle();
    sessions.close(POD);
    expect(await outcome()).toBe("seen");
  });
});

test("backs off from a launcher that hangs", async () => {
  daemon.failNext("findDomain", late);
  expect(await outcome()).toBe("LIBVIRT_TIMED_OUT");
  const before = daemon.calls.length;
  expect(await outcome()).toBe("left alone");
  expect(daemon.calls).toHaveLength(before);
  nowMs += 100;
  expect(await outcome()).toBe("seen");
});

test("a timeout and the end of its connection count once", async () => {
  daemon.failNext("findDomain", late);
  const hang = sessions.use(POD, ignore, async (session) => {
    daemon.dropConnections("no answer");
    await settle();
    return look(session).catch(() => Promise.reject(late));
  });
  await expect(hang).rejects.toBe(late);
  expect(sessions.backoffMs(POD)).toBeLessThanOrEqual(100);
});

test("a failed call causes no backoff and is rethrown unchanged", async () => {
  daemon.failNext("findDomain", new AppError("LIBVIRT_BUSY", {}));
  expect(await outcome()).toBe("LIBVIRT_BUSY");
  expect(await outcome()).toBe("seen");
});

test("work that ended in time is not aborted later", async () => {
  let isConnectionLost = false;
  await sessions.use(POD, ignore, (session) => {
    void session.connection.closed.then(() => (isConnectionLost = true));
    return Promise.resolve();
  });
  await settle();
  await pass(MINUTE_MS * 2);
  expect(isConnectionLost).toBe(false);
});

test("closing a session itself causes no backoff", async () => {
  await sessions.use(POD, ignore, (session) => session.connection.close());
  await settle();
  expect(await outcome()).toBe("seen");
});

test("closes the connection of work that exceeds its time limit", async () => {
  const work = sessions.use(POD, ignore, async (session) => {
    for (;;) {
      await look(session);
      await pass(1000);
    }
  });
  await expect(work).rejects.toMatchObject({
    code: "LIBVIRT_TIMED_OUT",
    message: expect.stringContaining("all calls of one pass within 90000 ms") as string,
  });
  expect(await outcome()).toBe("left alone");
});
