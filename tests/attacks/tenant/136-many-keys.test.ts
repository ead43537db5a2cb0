// SPDX-License-Identifier: Apache-2.0
// ConfigMaps of very many keys, which a pod mounts.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import type { Built, Order } from "./many-keys-worker.ts";

const KEYS = 30_000;
/** The paths took 30 s without a pause. Garbage collection takes up to 30 ms. */
const TURN_MS = 60;
const ATTEMPTS = 3;

/** Small young generation: a collection of many new pages takes as long as a turn where page faults are slow. */
async function buildVolumes(order: Order): Promise<readonly Built[]> {
  const worker = new Worker(new URL("./many-keys-worker.ts", import.meta.url), {
    execArgv: ["--conditions=@patchbay/source"],
    resourceLimits: { maxYoungGenerationSizeMb: 8 },
  });
  try {
    const built = once(worker, "message");
    worker.postMessage(order);
    return ((await built) as [readonly Built[]])[0];
  } finally {
    await worker.terminate();
  }
}

test("attack 136: builds a volume of 30,000 keys without blocking other pods", async () => {
  const built = await buildVolumes({ keyCount: KEYS, attempts: ATTEMPTS });
  expect(built.map(({ sizes }) => sizes)).toEqual(Array.from({ length: ATTEMPTS }, () => [KEYS]));
  expect(Math.min(...built.map(({ turnMs }) => turnMs))).toBeLessThan(TURN_MS);
});
