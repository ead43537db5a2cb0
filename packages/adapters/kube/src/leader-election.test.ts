// SPDX-License-Identifier: Apache-2.0
// Several processes and one Lease, with a clock of their own.
import { LEASES, NODES } from "@patchbay/api";
import type { KubeNode, Lease } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeCache, createFakeStore, type FakeCache } from "@patchbay/kube/testing";
import { createFakeClock, settle, type FakeClock } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, expect, test } from "vitest";
import { createElector, type Elector, createFencedStore } from "./leader-election.ts";

const KEY = { namespace: "patchbay", name: "virt-controller" };
const NODE: KubeNode = { apiVersion: "v1", kind: "Node", metadata: { name: "n" } };

/** One of the processes. */
interface Candidate {
  readonly elector: Elector;
  readonly leases: FakeCache<Lease>;
  /** Its process stands still: nothing of it is heard, and it hears nothing. */
  readonly freeze: () => void;
  readonly stop: () => void;
  readonly signal: AbortSignal;
}

let clock: FakeClock;
let server: Store;
let candidates: Candidate[];

/** What the watches of all have told. */
async function emitLease(): Promise<void> {
  const lease = await server.find(LEASES, KEY);
  for (const { leases } of candidates) {
    if (lease === undefined) leases.take(KEY);
    else leases.put(lease);
  }
  await settle();
}

/** Time goes by in small steps, in which everybody hears of everything. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    await clock.advance(100);
    await emitLease();
  }
}

function candidate(identity: string): Candidate {
  let isFrozen = false;
  const leases = createFakeCache<Lease>();
  const unlessFrozen = <T>(call: () => Promise<T>): Promise<T> =>
    isFrozen
      ? Promise.reject(new AppError("KUBE_UNREACHABLE", { server: "s", message: "gone" }))
      : call();
  const store: Store = {
    ...server,
    find: (...args) => unlessFrozen(() => server.find(...args)),
    create: (...args) => unlessFrozen(() => server.create(...args)),
    update: (...args) => unlessFrozen(() => server.update(...args)),
  };
  const stop = new AbortController();
  const elector = createElector({
    key: KEY,
    identity,
    store,
    leases,
    clock,
    log: createSilentLogger(),
  });
  const made = {
    elector,
    leases,
    signal: stop.signal,
    freeze: () => {
      isFrozen = true;
    },
    stop: () => {
      stop.abort(new Error("stopped"));
    },
  };
  candidates.push(made);
  return made;
}

/** Campaigns, then holds, as a program does. */
function run({ elector, signal }: Candidate): Promise<void> {
  return elector.campaign(signal).then(() => elector.hold(signal));
}

beforeEach(() => {
  clock = createFakeClock();
  server = createFakeStore();
  candidates = [];
});

test("the first candidate leads and is not disturbed by a second one", async () => {
  const [a, b] = [candidate("a"), candidate("b")];
  void run(a);
  await emitLease();
  void run(b).catch(() => undefined);
  await pass(30_000);
  expect([a, b].map(({ elector }) => elector.isLeading())).toEqual([true, false]);
  expect(b.elector.holder()).toBe("a");
  const lease = await server.find(LEASES, KEY);
  expect(lease?.spec).toMatchObject({ holderIdentity: "a", leaseTransitions: 0 });
});

test("exactly one of two concurrent candidates leads", async () => {
  const both = [candidate("a"), candidate("b")];
  for (const each of both) void run(each);
  await pass(10_000);
  expect(both.filter(({ elector }) => elector.isLeading())).toHaveLength(1);
});

test("a leader that dies is replaced within five seconds, after its last write", async () => {
  const [a, b] = [candidate("a"), candidate("b")];
  void run(a).catch(() => undefined);
  await emitLease();
  void run(b);
  await pass(10_000);
  a.freeze();
  let bothMs = 0;
  let noneMs = 0;
  while (!b.elector.isLeading() && noneMs < 20_000) {
    await pass(100);
    if (a.elector.isLeading() && b.elector.isLeading()) bothMs += 100;
    if (!b.elector.isLeading()) noneMs += 100;
  }
  expect(bothMs).toBe(0);
  expect(noneMs).toBeLessThan(5_000);
});

test("a released lease is acquired at once", async () => {
  const [a, b] = [candidate("a"), candidate("b")];
  const ended = run(a);
  await emitLease();
  void run(b);
  await pass(5_000);
  a.stop();
  await ended;
  await a.elector.release();
  await emitLease();
  expect([a, b].map(({ elector }) => elector.isLeading())).toEqual([false, true]);
});

test("a disconnected leader writes nothing, and continues if there is no new leader", async () => {
  let isAway = false;
  const away = new AppError("KUBE_UNREACHABLE", { server: "s", message: "away" });
  const all = server;
  server = {
    ...all,
    find: (...args) => all.find(...args),
    create: (...args) => all.create(...args),
    update: (...args) => (isAway ? Promise.reject(away) : all.update(...args)),
  };
  const a = candidate("a");
  void run(a);
  await pass(3_000);
  const fenced = createFencedStore(server, () => a.elector.remainingWriteMs());
  isAway = true;
  await pass(4_000);
  await expect(fenced.create(NODES, NODE)).rejects.toMatchObject({ code: "KUBE_NOT_LEADING" });
  isAway = false;
  await pass(1_000);
  await expect(fenced.create(NODES, NODE)).resolves.toMatchObject({ metadata: { name: "n" } });
});

test("a former leader that finds a new leader ends", async () => {
  const [a, b] = [candidate("a"), candidate("b")];
  const ended = run(a);
  const failure = ended.then(
    () => undefined,
    (error: unknown) => error,
  );
  await emitLease();
  void run(b);
  await pass(3_000);
  a.freeze();
  await pass(6_000);
  expect(await failure).toMatchObject({ code: "KUBE_LEASE_LOST", details: { leader: "b" } });
  expect(b.elector.isLeading()).toBe(true);
});

test("a deleted lease gets exactly one holder again", async () => {
  const [a, b] = [candidate("a"), candidate("b")];
  void run(a).catch(() => undefined);
  await emitLease();
  void run(b).catch(() => undefined);
  await pass(5_000);
  await server.delete(LEASES, KEY);
  await pass(5_000);
  expect([a, b].filter(({ elector }) => elector.isLeading())).toHaveLength(1);
});

test("a leader's write ends before another candidate may lead", async () => {
  const a = candidate("a");
  void run(a);
  await emitLease();
  const observed: (number | undefined)[] = [];
  const noting: Store = {
    ...server,
    create: (type, object, options) => {
      observed.push(options?.timeoutMs);
      return server.create(type, object);
    },
  };
  const fenced = createFencedStore(noting, () => a.elector.remainingWriteMs());
  await clock.advance(1_000);
  await fenced.create(NODES, NODE, { timeoutMs: 60_000 });
  expect(observed).toEqual([2_000]);
});
