// SPDX-License-Identifier: Apache-2.0
// How much one user may take of memory, connections and time.
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { createFakeClock } from "@patchbay/os/testing";
import { Budget, withReserved } from "./budget.ts";
import { FairQueue, TimeSlice, isHeavy } from "./fair-queue.ts";
import { LIMITS, UserQuotas } from "./limits.ts";

let sockets = 0;

class FakeSocket extends EventEmitter {
  destroyed = false;
  readonly remotePort = (sockets += 1);

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

function makeQuotas() {
  return new UserQuotas({
    ...LIMITS,
    unauthenticatedConnections: 1,
    connections: 2,
    watches: 1,
    receivedBytes: 10,
    unsentBytes: 20,
  });
}

test("limits the connections of a user, each counted once until it closes", () => {
  const quotas = makeQuotas();
  const [one, two, three] = [new FakeSocket(), new FakeSocket(), new FakeSocket()];
  for (const socket of [one, two, one]) quotas.addConnection("a", socket.asSocket);
  const add = (): void => {
    quotas.addConnection("a", three.asSocket);
  };
  expect(add).toThrow(
    expect.objectContaining({ code: 429, message: "this user has too many connections" }),
  );
  quotas.addConnection("b", three.asSocket);
  two.destroy();
  expect(add).not.toThrow();
});

test("does not count a closed connection", () => {
  const share = makeQuotas().forUser("a");
  for (let count = 0; count < 3; count += 1) {
    const closed = new FakeSocket();
    closed.destroyed = true;
    share.addConnection(closed.asSocket);
    expect(closed.listenerCount("close")).toBe(0);
  }
});

test("closes the oldest connection of unknown users for a new one unless it has authenticated", () => {
  const quotas = makeQuotas();
  const [one, two, three] = [new FakeSocket(), new FakeSocket(), new FakeSocket()];
  quotas.addUnauthenticated(one.asSocket);
  quotas.addConnection("a", one.asSocket);
  quotas.addUnauthenticated(two.asSocket);
  expect([one.destroyed, two.destroyed]).toEqual([false, false]);
  quotas.addUnauthenticated(three.asSocket);
  expect([one.destroyed, two.destroyed, three.destroyed]).toEqual([false, true, false]);
});

test("limits the watches of a user", () => {
  const share = makeQuotas().forUser("a");
  const release = share.addWatch();
  expect(() => share.addWatch()).toThrow(
    expect.objectContaining({ code: 429, message: "this user has too many watches" }),
  );
  release();
  expect(share.addWatch()).toBeInstanceOf(Function);
});

test("each user has one quota with separate budgets", () => {
  const quotas = makeQuotas();
  const share = quotas.forUser("a");
  expect(quotas.forUser("a")).toBe(share);
  expect(quotas.forUser("b")).not.toBe(share);
  const spent = [share.receivedBudget, share.responseBudget, share.watchBudget].map((budget) => {
    budget.spend(10);
    return budget.isSpent;
  });
  expect(spent).toEqual([true, false, false]);
});

test("byte limits are in MiB", () => {
  expect([LIMITS.receivedBytes, LIMITS.unsentBytes]).toEqual([33_554_432, 33_554_432]);
});

describe("a reservation", () => {
  const BIG = 16 * 1024 + 1;

  test("is released when the work is done", async () => {
    const budget = new Budget(BIG);
    const response = new FakeSocket();
    const seen = await withReserved(budget, BIG, response.asResponse, () =>
      Promise.resolve(budget.isSpent),
    );
    expect([seen, budget.isSpent, response.listenerCount("close")]).toEqual([true, false, 0]);
  });

  test("is released when the work fails", async () => {
    const budget = new Budget(BIG);
    const failing = withReserved(budget, BIG, new FakeSocket().asResponse, () =>
      Promise.reject(new Error("no")),
    );
    await expect(failing).rejects.toThrow("no");
    expect(budget.isSpent).toBe(false);
  });

  test("is not needed for small amounts", async () => {
    const budget = new Budget(1);
    const { asResponse } = new FakeSocket();
    const work = () => Promise.resolve(budget.isSpent);
    expect(await withReserved(budget, BIG - 1, asResponse, work)).toBe(false);
  });

  test("is canceled when the client disconnects", async () => {
    const budget = new Budget(BIG);
    budget.spend(1);
    const response = new FakeSocket();
    const leaving = withReserved(budget, BIG, response.asResponse, () => Promise.resolve("done"));
    response.destroy();
    expect(await leaving).toBeUndefined();
    budget.release(1);
    const late = withReserved(budget, BIG, response.asResponse, () => Promise.resolve("done"));
    expect([await late, budget.isSpent]).toEqual([undefined, false]);
  });
});

test.each([
  { name: "exactly the remaining memory", spent: 6, amount: 4, want: ["at once"] },
  { name: "more than the remaining memory", spent: 6, amount: 5, want: [] },
  { name: "everything", spent: 0, amount: 11, want: ["at once"] },
])("a reservation of $name is granted at once or waits", async ({ spent, amount, want }) => {
  const budget = new Budget(10);
  budget.spend(spent);
  const order: string[] = [];
  void budget.reserve(amount, new AbortController().signal).then(() => order.push("at once"));
  await new Promise((resolve) => setImmediate(resolve));
  expect(order).toEqual(want);
});

test("a granted reservation removes its abort listener", async () => {
  const stop = new AbortController();
  const listening = new Set<unknown>();
  const { signal } = stop;
  const budget = new Budget(10);
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...given: Parameters<typeof add>) => {
    listening.add(given[1]);
    add(...given);
  };
  signal.removeEventListener = (...given: Parameters<typeof remove>) => {
    listening.delete(given[1]);
    remove(...given);
  };
  expect(await budget.reserve(1, signal)).toBe(true);
  expect(listening.size).toBe(0);
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
  const timeSlice = new TimeSlice({ clock, fairQueue: new FairQueue() }, "a");
  await clock.advance(9);
  expect(timeSlice.isUsedUp).toBe(false);
  await clock.advance(1);
  expect(timeSlice.isUsedUp).toBe(true);
  await timeSlice.waitForNext();
  expect(timeSlice.isUsedUp).toBe(false);
});
