// SPDX-License-Identifier: Apache-2.0
// ConfigMaps of very many keys on a real file system.
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createProcessRunner, createVolumeDisk } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { VolumeDeps } from "../../../packages/standalone/node-runtime/src/volumes/deps.ts";
import { prepareVolumes } from "../../../packages/standalone/node-runtime/src/volumes/pod-volumes.ts";
import {
  aConfigMap,
  aPodWith,
  createVolumeBench,
} from "../../../packages/standalone/node-runtime/src/volumes/testing.ts";
import { longestTurnMs } from "../longest-turn.ts";

const TURN_MS = 60;
const SIZES = [7500, 15_000, 30_000];
const ATTEMPTS = 3;
/** 52,500 files in each attempt, which took 111 s beside other suites. */
const TEST_MS = 600_000;

let podsDir: string;
beforeEach(async () => {
  podsDir = await mkdtemp(join(tmpdir(), "attack-"));
});
afterEach(() => rm(podsDir, { recursive: true }));

function withConfigMap(keyCount: number): VolumeDeps {
  const bench = createVolumeBench();
  const keys = Array.from({ length: keyCount }, (_key, index) => [`key-${String(index)}`, ""]);
  bench.put(aConfigMap("many", Object.fromEntries(keys) as Record<string, string>));
  const disk = createVolumeDisk({ runner: createProcessRunner() });
  return { ...bench.deps, disk, node: { ...bench.deps.node, podsDir } };
}

interface Cost {
  readonly usedMs: number;
  readonly turnMs: number;
}

async function measure(work: () => Promise<unknown>): Promise<Cost> {
  const before = process.cpuUsage();
  const turnMs = await longestTurnMs(work);
  const { user, system } = process.cpuUsage(before);
  return { usedMs: (user + system) / 1000, turnMs };
}

/** Writes a volume of each size, and returns the costs. Each `attempt` has pods of its own. */
async function writeVolumes(attempt: number): Promise<readonly Cost[]> {
  const costs: Cost[] = [];
  for (const size of SIZES) {
    const { metadata, ...rest } = aPodWith([{ name: "v", configMap: { name: "many" } }]);
    const uid = `uid-${String(size)}-${String(attempt)}`;
    const deps = withConfigMap(size);
    let path = "";
    const prepare = async (): Promise<void> => {
      [path = ""] = (
        await prepareVolumes(deps, { ...rest, metadata: { ...metadata, uid } })
      ).values();
    };
    costs.push(await measure(prepare));
    expect((await readdir(path)).filter((name) => name.startsWith("key-"))).toHaveLength(size);
  }
  console.log(costs);
  return costs;
}

function longestOf(costs: readonly Cost[]): number {
  return Math.max(...costs.map(({ turnMs }) => turnMs));
}

test(
  "attack 136: writes a volume of 30,000 keys in linear time, and pauses for other pods",
  async () => {
    let costs = await writeVolumes(1);
    // Blocking of its own returns in each attempt, unlike the collection of garbage of other tests in this process.
    for (let attempt = 2; attempt <= ATTEMPTS && longestOf(costs) >= TURN_MS; attempt++) {
      costs = await writeVolumes(attempt);
    }
    const [first, , last] = costs.map(({ usedMs }) => usedMs);
    expect((last ?? Infinity) / (first ?? 0)).toBeLessThan(6);
    expect(longestOf(costs)).toBeLessThan(TURN_MS);
  },
  TEST_MS,
);
