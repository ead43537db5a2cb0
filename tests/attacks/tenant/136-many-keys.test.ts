// SPDX-License-Identifier: Apache-2.0
// ConfigMaps of very many keys, which a pod mounts.
import { expect, test } from "vitest";
import { prepareVolumes } from "../../../packages/standalone/node-runtime/src/volumes/pod-volumes.ts";
import {
  aConfigMap,
  aPodWith,
  createVolumeBench,
} from "../../../packages/standalone/node-runtime/src/volumes/testing.ts";
import { longestTurnMs } from "../longest-turn.ts";

const KEYS = 30_000;
/** The paths took 30 s without a pause. Garbage collection takes up to 30 ms. */
const TURN_MS = 60;

test("attack 136: builds a volume of 30,000 keys without blocking other pods", async () => {
  const bench = createVolumeBench();
  const keys = Array.from({ length: KEYS }, (_key, index) => [`key-${String(index)}`, ""]);
  bench.put(aConfigMap("many", Object.fromEntries(keys) as Record<string, string>));
  const pod = aPodWith([{ name: "v", configMap: { name: "many" } }]);
  const turnMs = await longestTurnMs(() => prepareVolumes(bench.deps, pod));
  expect([...bench.disk.published.values()].map(({ size }) => size)).toEqual([KEYS]);
  expect(turnMs).toBeLessThan(TURN_MS);
});
