// SPDX-License-Identifier: Apache-2.0
// Does everyone get a turn, in order, whatever those before them do?
import { expect, test } from "vitest";
import { inTurn } from "./turns.ts";

const STORE = { find: () => undefined };
const ADDRESS = { bucket: "/configmaps", namespace: "a", name: "x" };

test("work on one object is done in order, after failures too; others do not wait", async () => {
  const order: string[] = [];
  const held = Promise.withResolvers<undefined>();
  const first = inTurn(STORE, ADDRESS, async () => {
    await held.promise;
    order.push("first");
  });
  const second = inTurn(STORE, ADDRESS, () => {
    order.push("second");
    return Promise.reject(new Error("no"));
  });
  const third = inTurn(STORE, ADDRESS, () => Promise.resolve(order.push("third")));
  await inTurn(STORE, { ...ADDRESS, name: "y" }, () => Promise.resolve(order.push("other")));
  expect(order).toEqual(["other"]);
  held.resolve(undefined);
  await first;
  await expect(second).rejects.toThrow("no");
  await third;
  expect(order).toEqual(["other", "first", "second", "third"]);
});
