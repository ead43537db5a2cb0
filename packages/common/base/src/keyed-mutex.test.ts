// SPDX-License-Identifier: Apache-2.0
// Does everyone get the lock, in order, whatever those before them do?
import { expect, test } from "vitest";
import { KeyedMutex } from "./keyed-mutex.ts";

test("runs calls for one key in order, even after a failure; other keys run concurrently", async () => {
  const mutex = new KeyedMutex();
  const observed: string[] = [];
  const first = Promise.withResolvers<undefined>();
  const failing = mutex.runExclusive("a", () => first.promise);
  const second = mutex.runExclusive("a", () => {
    observed.push("second");
    return Promise.reject(new Error("second"));
  });
  const third = mutex.runExclusive("a", () => {
    observed.push("third");
    return Promise.resolve(3);
  });
  expect(await mutex.runExclusive("b", () => Promise.resolve("other"))).toBe("other");
  expect(observed).toEqual([]);
  first.reject(new Error("no"));
  await expect(failing).rejects.toThrow("no");
  await expect(second).rejects.toThrow("second");
  expect(await third).toBe(3);
  expect(observed).toEqual(["second", "third"]);
  expect(await mutex.runExclusive("a", () => Promise.resolve("later"))).toBe("later");
});
