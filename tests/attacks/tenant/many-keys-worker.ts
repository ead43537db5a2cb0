// SPDX-License-Identifier: Apache-2.0
// Builds the volume of attack 136 in a thread of its own, whose heap has no garbage of other tests.
import { parentPort } from "node:worker_threads";
import { prepareVolumes } from "../../../packages/standalone/node-runtime/src/volumes/pod-volumes.ts";
import {
  aConfigMap,
  aPodWith,
  createVolumeBench,
} from "../../../packages/standalone/node-runtime/src/volumes/testing.ts";
import { longestTurnMs } from "../longest-turn.ts";

export interface Order {
  readonly keyCount: number;
  readonly attempts: number;
}

export interface Built {
  readonly turnMs: number;
  /** Number of files of each volume. */
  readonly sizes: readonly number[];
}

async function build(keyCount: number): Promise<Built> {
  const bench = createVolumeBench();
  const keys = Array.from({ length: keyCount }, (_key, index) => [`key-${String(index)}`, ""]);
  bench.put(aConfigMap("many", Object.fromEntries(keys) as Record<string, string>));
  const pod = aPodWith([{ name: "v", configMap: { name: "many" } }]);
  const turnMs = await longestTurnMs(() => prepareVolumes(bench.deps, pod));
  return { turnMs, sizes: [...bench.disk.published.values()].map(({ size }) => size) };
}

async function buildOften({ keyCount, attempts }: Order): Promise<readonly Built[]> {
  const all: Built[] = [];
  for (let attempt = 0; attempt < attempts; attempt += 1) all.push(await build(keyCount));
  return all;
}

parentPort?.once("message", (order: Order) => {
  void buildOften(order).then((all) => parentPort?.postMessage(all));
});
