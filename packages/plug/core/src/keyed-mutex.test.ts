// SPDX-License-Identifier: Apache-2.0
import { settle } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { Turns } from "./turns.ts";

test("work on one thing waits for what was asked before, also where that fails; another's does not", async () => {
  const turns = new Turns();
  const seen: string[] = [];
  const first = Promise.withResolvers<undefined>();
  const failing = turns.take("a", () => first.promise);
  const second = turns.take("a", () => {
    seen.push("second");
    return Promise.resolve(2);
  });
  const third = turns.take("a", () => {
    seen.push("third");
    return Promise.resolve(3);
  });
  expect(await turns.take("b", () => Promise.resolve("other"))).toBe("other");
  await settle();
  expect(seen).toEqual([]);
  first.reject(new Error("no"));
  await expect(failing).rejects.toThrow("no");
  expect(await Promise.all([second, third])).toEqual([2, 3]);
  expect(seen).toEqual(["second", "third"]);
});
