// SPDX-License-Identifier: Apache-2.0
// Limits of a user and of all users on memory, connections and time.
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { SharePool } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { createFakeClock } from "@patchbay/os/testing";
import { ANONYMOUS, type User } from "../auth/user.ts";
import { runTurns } from "../testing/test-server.ts";
import { openTimeSlice } from "../testing/time-slice.ts";
import { FairQueue, isHeavy } from "./fair-queue.ts";
import { LIMITS, shareKeyOf, UserQuotas, withReserved } from "./limits.ts";

let sockets = 0;

class FakeSocket extends EventEmitter {
  destroyed = false;
  readonly remoteAddress = "192.0.2.1";
  readonly remotePort = (sockets += 1);

  constructor() {
    super();
    this.setMaxListeners(0);
  }

  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }

  get asSocket(): Socket {
    return this as unknown as Socket;
  }

  get asResponse(): ServerResponse {
    return this as unknown as ServerResponse;
  }
}

const A: User = { name: "a", groups: [] };
const B: User = { name: "b", groups: [] };
const NODE: User = { name: "system:node:n", groups: ["system:nodes"] };
const ADMIN: User = { name: "admin", groups: ["system:masters"] };

test.each<{ name: string; user: User; want: string }>([
  { name: "a user", user: A, want: "user a" },
  { name: "an administrator", user: ADMIN, want: "system user admin" },
  {
    name: "a node",
    user: { name: "system:node:n", groups: ["system:nodes"] },
    want: "system user system:node:n",
  },
  {
    name: "a service account",
    user: { name: "system:serviceaccount:t1:robot", groups: ["system:serviceaccounts:t1"] },
    want: "namespace t1",
  },
  {
    name: "another service account of the namespace",
    user: { name: "system:serviceaccount:t1:other", groups: [] },
    want: "namespace t1",
  },
  {
    name: "a service account in an administrators' group",
    user: { name: "system:serviceaccount:t1:robot", groups: ["system:masters"] },
    want: "namespace t1",
  },
  {
    name: "a service account of Patchbay",
    user: { name: "system:serviceaccount:patchbay:virt-api", groups: [] },
    want: "system namespace patchbay",
  },
  {
    name: "a tenant who impersonates a service account",
    user: { name: "system:serviceaccount:t1:robot", groups: [], impersonator: A },
    want: "user a",
  },
  {
    name: "a tenant who impersonates an administrator",
    user: { ...ADMIN, impersonator: A },
    want: "user a",
  },
  {
    name: "a user with the name of a key",
    user: { name: "system user admin", groups: [] },
    want: "user system user admin",
  },
])("requests of $name count for $want", ({ user, want }) => {
  expect(shareKeyOf(user)).toBe(want);
});

const STOP = new AbortController().signal;

function makeQuotas(clock = createFakeClock()) {
  const limits = {
    ...LIMITS,
    requests: { burst: 2, perSecond: 10 },
    unauthenticatedConnections: 2,
    connections: { max: 4, share: 2, reserve: 1 },
    watches: { max: 3, share: 1, reserve: 1 },
  };
  return new UserQuotas(limits, { clock, stop: STOP });
}

test("limits the connections of a user, each counted once until it closes", () => {
  const quotas = makeQuotas();
  const [one, two, three] = [new FakeSocket(), new FakeSocket(), new FakeSocket()];
  for (const socket of [one, two, one]) quotas.addConnection(A, socket.asSocket);
  const add = (): void => {
    quotas.addConnection(A, three.asSocket);
  };
  expect(add).toThrow(
    expect.objectContaining({ code: 429, message: "this user has too many connections" }),
  );
  quotas.addConnection(B, new FakeSocket().asSocket);
  two.destroy();
  expect(add).not.toThrow();
});

test("limits the connections of all users, and reserves some for the system", () => {
  const quotas = makeQuotas();
  for (const user of [A, A, B]) quotas.addConnection(user, new FakeSocket().asSocket);
  expect(() => {
    quotas.addConnection(B, new FakeSocket().asSocket);
  }).toThrow(
    expect.objectContaining({
      code: 429,
      message: "all users together have too many connections",
    }),
  );
  quotas.addConnection(ADMIN, new FakeSocket().asSocket);
});

test("does not count a closed connection", () => {
  const quotas = makeQuotas();
  for (let count = 0; count < 3; count += 1) {
    const closed = new FakeSocket();
    closed.destroyed = true;
    quotas.addConnection(A, closed.asSocket);
    expect(closed.listenerCount("close")).toBe(0);
  }
});

test("closes the oldest unauthenticated connection of an address for a new one", () => {
  const quotas = makeQuotas();
  const [one, two, three] = [new FakeSocket(), new FakeSocket(), new FakeSocket()];
  quotas.addUnauthenticated(one.asSocket);
  quotas.addConnection(A, one.asSocket);
  quotas.addUnauthenticated(two.asSocket);
  expect([one.destroyed, two.destroyed]).toEqual([false, false]);
  quotas.addUnauthenticated(three.asSocket);
  expect([one.destroyed, two.destroyed, three.destroyed]).toEqual([false, true, false]);
});

test("limits the watches of a user", () => {
  const quotas = makeQuotas();
  const release = quotas.addWatch(A);
  expect(() => quotas.addWatch(A)).toThrow(
    expect.objectContaining({ code: 429, message: "this user has too many watches" }),
  );
  release();
  expect(quotas.addWatch(A)).toBeInstanceOf(Function);
});

test("received, unsent and watched bytes have separate pools in MiB", () => {
  const { receivedBytes, unsentBytes, unsentEvents } = makeQuotas();
  receivedBytes.spend(shareKeyOf(A), 16 * 1024 * 1024);
  const pools = [receivedBytes, unsentBytes, unsentEvents];
  expect(pools.map((pool) => pool.findShortage(shareKeyOf(A)))).toEqual([
    "share",
    undefined,
    undefined,
  ]);
  expect(pools.map((pool) => pool.findShortage(shareKeyOf(B)))).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

describe("a reservation", () => {
  const BIG = 16 * 1024 + 1;
  const request = { user: A, amount: BIG };
  const isSpent = (pool: SharePool): boolean => pool.findShortage(shareKeyOf(A)) !== undefined;

  test("is released when the work is done", async () => {
    const pool = new SharePool({ max: BIG, share: BIG });
    const response = new FakeSocket();
    const duringWork = await withReserved(pool, request, response.asResponse, () =>
      Promise.resolve(isSpent(pool)),
    );
    expect([duringWork, isSpent(pool), response.listenerCount("close")]).toEqual([true, false, 0]);
  });

  test("is released when the work fails", async () => {
    const pool = new SharePool({ max: BIG, share: BIG });
    const failing = withReserved(pool, request, new FakeSocket().asResponse, () =>
      Promise.reject(new Error("no")),
    );
    await expect(failing).rejects.toThrow("no");
    expect(isSpent(pool)).toBe(false);
  });

  test("is not needed for small amounts", async () => {
    const pool = new SharePool({ max: 1, share: 1 });
    const { asResponse } = new FakeSocket();
    const work = () => Promise.resolve(isSpent(pool));
    const small = { user: A, amount: BIG - 1 };
    expect(await withReserved(pool, small, asResponse, work)).toBe(false);
  });

  test("is canceled when the client disconnects", async () => {
    const pool = new SharePool({ max: BIG, share: BIG });
    pool.spend(shareKeyOf(A), 1);
    const response = new FakeSocket();
    const work = () => Promise.resolve("done");
    const canceled = withReserved(pool, request, response.asResponse, work);
    response.destroy();
    expect(await canceled).toBeUndefined();
    pool.release(shareKeyOf(A), 1);
    const late = withReserved(pool, request, response.asResponse, work);
    expect([await late, isSpent(pool)]).toEqual([undefined, false]);
  });

  test("of one namespace's service accounts leaves room for other tenants", async () => {
    const pool = new SharePool({ max: 3 * BIG, share: BIG });
    const { asResponse } = new FakeSocket();
    const started: string[] = [];
    const hold = (user: User) =>
      withReserved(pool, { user, amount: BIG }, asResponse, () => {
        started.push(user.name);
        return new Promise<never>(() => undefined);
      });
    for (let index = 0; index < 40; index += 1) {
      void hold({ name: `system:serviceaccount:t1:a${String(index)}`, groups: [] });
    }
    void hold(B);
    await new Promise((resolve) => setImmediate(resolve));
    expect(started).toEqual(["system:serviceaccount:t1:a0", "b"]);
  });
});

test.each([
  { length: 16 * 1024, want: false },
  { length: 16 * 1024 + 1, want: true },
])("a text of $length characters is heavy: $want", ({ length, want }) => {
  expect(isHeavy(length)).toBe(want);
});

test("work yields after 10 ms and continues in a new time slice", async () => {
  const clock = createFakeClock();
  await clock.advance(3);
  const timeSlice = openTimeSlice(A, { clock });
  await clock.advance(9);
  expect(timeSlice.isUsedUp).toBe(false);
  await clock.advance(1);
  expect(timeSlice.isUsedUp).toBe(true);
  await timeSlice.waitForNext();
  expect(timeSlice.isUsedUp).toBe(false);
});

test("requests of a user beyond the rate wait, and others' requests do not", async () => {
  const clock = createFakeClock();
  const quotas = makeQuotas(clock);
  const served: string[] = [];
  const ask = (user: User): void => {
    const response = new EventEmitter() as ServerResponse;
    void quotas.waitForRate(user, response).then(() => served.push(user.name));
  };
  const impersonated = { ...B, impersonator: A };
  for (const user of [A, impersonated, A, B, NODE]) ask(user);
  await clock.advance(0);
  expect(served.toSorted()).toEqual([A.name, B.name, B.name, NODE.name].toSorted());
  await clock.advance(100);
  expect(served.at(-1)).toBe(A.name);
});

test("requests of a user who has used the thread for long wait, and others' requests do not", async () => {
  const clock = createFakeClock();
  const limits = { ...LIMITS, thread: { burst: 50, perSecond: 100 } };
  const quotas = new UserQuotas(limits, { clock, stop: STOP });
  const served: string[] = [];
  const ask = (user: User): void => {
    const response = new EventEmitter() as ServerResponse;
    void quotas.waitForRate(user, response).then(() => served.push(user.name));
  };
  const work = async (user: User, ms: number): Promise<void> => {
    quotas.countTurn(user);
    quotas.countTurn(user);
    // Advances the time within one turn of the event loop.
    void clock.advance(ms);
    await new Promise(setImmediate);
  };
  await work(A, 60);
  await work(ADMIN, 60);
  for (const user of [A, B, ADMIN]) ask(user);
  await clock.advance(0);
  expect(served.toSorted()).toEqual([ADMIN.name, B.name].toSorted());
  await clock.advance(110);
  expect(served.at(-1)).toBe(A.name);
});

test("work of a user that waits for the thread starts when the time of earlier work is counted", async () => {
  const clock = createFakeClock();
  const limits = { ...LIMITS, thread: { burst: 50, perSecond: 100 } };
  const quotas = new UserQuotas(limits, { clock, stop: STOP });
  const fairQueue = new FairQueue({ clock, stop: STOP });
  const gone = new AbortController();
  const startedMs: Record<string, number> = {};
  const work = async (name: string, user: User, closed = STOP): Promise<void> => {
    const turn = () => fairQueue.waitForTurn(user);
    if (!(await quotas.waitForThread(user, closed, turn))) return;
    startedMs[name] = clock.monotonicMs();
    void clock.advance(60);
  };
  void work("a1", A);
  void work("a2", A, gone.signal);
  void work("a3", A);
  void work("a4", A);
  await runTurns();
  gone.abort();
  await clock.advance(109);
  await runTurns();
  expect(startedMs).toEqual({ a1: 0 });
  await clock.advance(1);
  await runTurns();
  expect(startedMs).toMatchObject({ a1: 0, a3: 170 });
  void work("node", NODE);
  await runTurns();
  expect(Object.keys(startedMs)).toEqual(["a1", "a3", "node"]);
});

test("unauthenticated clients have a rate for each address", async () => {
  const clock = createFakeClock();
  const quotas = makeQuotas(clock);
  const served: string[] = [];
  const ask = (remoteAddress: string): void => {
    const request = { socket: { remoteAddress } };
    const response = Object.assign(new EventEmitter(), { req: request });
    void quotas
      .waitForRate(ANONYMOUS, response as unknown as ServerResponse)
      .then(() => served.push(remoteAddress));
  };
  for (const address of ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"]) ask(address);
  await clock.advance(0);
  expect(served.toSorted()).toEqual(["192.0.2.1", "192.0.2.1", "192.0.2.2"]);
});
