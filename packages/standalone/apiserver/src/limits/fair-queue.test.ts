// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { User } from "../auth/user.ts";
import { FairQueue } from "./fair-queue.ts";

function userOf(name: string): User {
  return { name, groups: [] };
}

test("alternates between users, and preserves the order within each user", async () => {
  const fairQueue = new FairQueue();
  const order: string[] = [];
  const asked = ["a1", "a2", "a3", "b1", "b2", "c1"].map(async (name) => {
    await fairQueue.waitForTurn(userOf(name.slice(0, 1)));
    order.push(name);
  });
  await Promise.all(asked);
  expect(order).toEqual(["a1", "b1", "c1", "a2", "b2", "a3"]);
});

test("lets one request through per turn of the event loop", async () => {
  const fairQueue = new FairQueue();
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
  const fairQueue = new FairQueue();
  await fairQueue.waitForTurn(userOf("a"));
  await fairQueue.waitForTurn(userOf("a"));
  await expect(fairQueue.waitForTurn(userOf("b"))).resolves.toBeUndefined();
});

test("the system is served at least every second time", async () => {
  const fairQueue = new FairQueue();
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
