// SPDX-License-Identifier: Apache-2.0
// virt-controller, net-agent and virt-handler together on fakes: one of them dies after each single action of a
// scenario.
import { afterAll, expect, test } from "vitest";
import { expectSameEnd } from "./every-point.ts";
import { NodeInMemory } from "./memory/node-in-memory.ts";
import { STORIES } from "./stories.ts";

/** Time for all points of one scenario on a busy machine, milliseconds. */
const ALL_POINTS_MS = 300_000;
/** Points of deaths, by scenario. */
const counted = new Map<string, number>();

afterAll(() => {
  const points = [...counted].map(([name, count]) => `${name} ${String(count)}`);
  const sum = [...counted.values()].reduce((total, count) => total + count, 0);
  process.stdout.write(`deaths on fakes: ${String(sum)} points: ${points.join(", ")}\n`);
});

test.each(STORIES)(
  "$name has the same result after a crash at any of its actions",
  { timeout: ALL_POINTS_MS },
  async (scenario) => {
    const { length: points } = await expectSameEnd(scenario, () => ({
      nodes: [new NodeInMemory()],
    }));
    counted.set(scenario.name, points);
    expect(points).toBeGreaterThan(3);
  },
);
