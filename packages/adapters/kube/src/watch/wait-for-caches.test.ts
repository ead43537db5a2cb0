// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { waitForCaches } from "./wait-for-caches.ts";

const NEVER = { synced: () => Promise.withResolvers<undefined>().promise };

test("the wait ends when every cache has its first list", async () => {
  const slow = Promise.withResolvers<undefined>();
  let isOver = false;
  const quick = { synced: () => Promise.resolve() };
  const wait = waitForCaches(
    [quick, { synced: () => slow.promise }],
    new AbortController().signal,
  ).then(() => (isOver = true));
  await Promise.resolve();
  expect(isOver).toBe(false);
  slow.resolve(undefined);
  await wait;
  expect(isOver).toBe(true);
});

test("the wait ends when the process is told to end", async () => {
  const controller = new AbortController();
  const wait = waitForCaches([NEVER], controller.signal);
  controller.abort();
  await expect(wait).resolves.toBeUndefined();
});

test("there is no wait when the process was told to end before", async () => {
  await expect(waitForCaches([NEVER], AbortSignal.abort())).resolves.toBeUndefined();
});
