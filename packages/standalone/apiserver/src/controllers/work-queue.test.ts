// SPDX-License-Identifier: Apache-2.0
// Is each key worked on once at a time, again when it was added meanwhile, and are others served in between?
import { setImmediate as turn } from "node:timers/promises";
import type { Clock, Logger } from "@patchbay/base";
import { expect, test } from "vitest";
import { WorkQueue } from "./work-queue.ts";

const logger = { debug: () => undefined } as unknown as Logger;
const clock = { sleep: () => Promise.resolve() } as unknown as Clock;

function makeQueue(work: (key: string) => Promise<void>): WorkQueue {
  return new WorkQueue({
    name: "test",
    clock,
    logger,
    stop: new AbortController().signal,
    work,
  });
}

async function turns(count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    await turn();
  }
}

test("processes keys in order, each once", async () => {
  const worked: string[] = [];
  const queue = makeQueue((key) => {
    worked.push(key);
    return Promise.resolve();
  });
  ["b", "a", "b", "c"].forEach((key) => {
    queue.add(key);
  });
  await turns(5);
  expect(worked).toEqual(["b", "a", "c"]);
});

test("processes a key added during its processing again, never concurrently", async () => {
  const gates: (() => void)[] = [];
  const queue = makeQueue(() => new Promise((resolve) => gates.push(resolve)));
  queue.add("a");
  await turns(2);
  queue.add("a");
  await turns(5);
  expect(gates).toHaveLength(1);
  gates[0]?.();
  await turns(5);
  expect(gates).toHaveLength(2);
});

test("retries a key that failed", async () => {
  let failures = 0;
  const queue = makeQueue(() => {
    failures += 1;
    return failures < 3 ? Promise.reject(new Error("not yet")) : Promise.resolve();
  });
  queue.add("a");
  await turns(20);
  expect(failures).toBe(3);
});

test("yields to the event loop between many keys", async () => {
  let worked = 0;
  const queue = makeQueue(() => {
    worked += 1;
    return Promise.resolve();
  });
  for (let index = 0; index < 1000; index += 1) {
    queue.add(String(index));
  }
  await turns(3);
  expect(worked).toBeGreaterThan(0);
  expect(worked).toBeLessThan(100);
  await turns(200);
  expect(worked).toBe(1000);
});
