// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import type { User } from "../auth/user.ts";
import { runTurns } from "../testing/test-server.ts";
import { FairQueue } from "./fair-queue.ts";

function makeQueue(clock = createFakeClock()): FairQueue {
  return new FairQueue({ clock, stop: new AbortController().signal });
}

function userOf(name: string): User {
  return { name, groups: [] };
}

test("alternates between users, and preserves the order within each user", async () => {
  const fairQueue = makeQueue();
  const order: string[] = [];
  const asked = ["a1", "a2", "a3", "b1", "b2", "c1"].map(async (name) => {
    await fairQueue.waitForTurn(userOf(name.slice(0, 1)));
    order.push(name);
  });
  await Promise.all(asked);
  expect(order).toEqual(["a1", "b1", "c1", "a2", "b2", "a3"]);
});

test("lets one request through per turn of the event loop", async () => {
  const fairQueue = makeQueue();
  let turn = 0;
  const count = (): void => {
    turn += 1;
    if (turn < 10) setImmediate(count);
  };
  setImmediate(count);
  const turns = await Promise.all(
    [1, 2, 3].map(async () => {
      await fairQueue.waitForTurn(userOf("a"));
      return turn;
    }),
  );
  expect(new Set(turns).size).toBe(3);
});

test("a new user does not wait behind earlier requests of another user", async () => {
  const fairQueue = makeQueue();
  await fairQueue.waitForTurn(userOf("a"));
  await fairQueue.waitForTurn(userOf("a"));
  await expect(fairQueue.waitForTurn(userOf("b"))).resolves.toBeUndefined();
});

test("a tenant pauses for seven times the duration of its write, and the system does not", async () => {
  const clock = createFakeClock();
  const fairQueue = makeQueue(clock);
  const work = async (user: User): Promise<void> => {
    await fairQueue.waitForWrite(user);
    await clock.advance(20);
  };
  await work(userOf("a"));
  await runTurns();
  const served: string[] = [];
  const node = { name: "system:node:n", groups: ["system:nodes"] };
  for (const user of [userOf("a"), node, userOf("b")])
    void fairQueue.waitForWrite(user).then(() => served.push(user.name));
  await clock.advance(139);
  await runTurns();
  expect(served).toEqual(["system:node:n", "b"]);
  await clock.advance(1);
  await runTurns();
  expect(served).toEqual(["system:node:n", "b", "a"]);
});

test("the system is served at least every second time", async () => {
  const fairQueue = makeQueue();
  const order: string[] = [];
  const node = { name: "system:node:n", groups: ["system:nodes"] };
  await Promise.all(
    ["a", "b", "c", "d"]
      .map(async (name) => {
        await fairQueue.waitForTurn(userOf(name));
        order.push(name);
      })
      .concat(
        [1, 2].map(async () => {
          await fairQueue.waitForTurn(node);
          order.push("node");
        }),
      ),
  );
  expect(order).toEqual(["a", "node", "b", "node", "c", "d"]);
});
