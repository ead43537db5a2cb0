// SPDX-License-Identifier: Apache-2.0
// Does everyone get the lock, in order, whatever those before them do?
import { expect, test } from "vitest";
import { KeyedMutex } from "./keyed-mutex.ts";

test("work under one key waits for what was asked before, also where that fails; another's does not", async () => {
  const mutex = new KeyedMutex();
  const seen: string[] = [];
  const first = Promise.withResolvers<undefined>();
  const failing = mutex.runExclusive("a", () => first.promise);
  const second = mutex.runExclusive("a", () => {
    seen.push("second");
    return Promise.reject(new Error("second"));
  });
  const third = mutex.runExclusive("a", () => {
    seen.push("third");
    return Promise.resolve(3);
  });
  expect(await mutex.runExclusive("b", () => Promise.resolve("other"))).toBe("other");
  expect(seen).toEqual([]);
  first.reject(new Error("no"));
  await expect(failing).rejects.toThrow("no");
  await expect(second).rejects.toThrow("second");
  expect(await third).toBe(3);
  expect(seen).toEqual(["second", "third"]);
  expect(await mutex.runExclusive("a", () => Promise.resolve("later"))).toBe("later");
});
