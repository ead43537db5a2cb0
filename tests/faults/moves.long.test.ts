// SPDX-License-Identifier: Apache-2.0
// Two fake nodes and a migrating guest: one of the five processes dies after each single action. The guest never runs
// twice, and the result is the same; a failed migration is requested once more, as by a drain.
import { afterAll, describe, expect, test } from "vitest";
import { expectSameEnd, type World } from "./every-point.ts";
import type { Cluster } from "./memory/cluster.ts";
import { createBetween, NodeInMemory } from "./memory/node-in-memory.ts";
import { ONE, TWO, type Story } from "./stories.ts";
import { stageAfter, WHO_DIES, type Death } from "./who-dies.ts";

/** Time for all points of one scenario on a busy machine, milliseconds. */
const ALL_POINTS_MS = 600_000;
/** A disturbed and an undisturbed process: none dies twice. */
const TRIES = 2;

/** Of all scenarios. */
const died: Death[] = [];

afterAll(() => {
  process.stdout.write(`deaths while a guest moves, on fakes: ${String(died.length)} points\n`);
});

/** Waits until it runs on that node. */
async function moveTo(node: string, cluster: Cluster): Promise<void> {
  for (let count = 1; count <= TRIES; count += 1) {
    if ((await cluster.nodeOfGuest()) === node) return;
    await cluster.askForMove(`to-${node}-${String(count)}`);
    await cluster.settle();
  }
  expect(await cluster.nodeOfGuest()).toBe(node);
}

/** `npm run faults` tests their points. */
const LONG: readonly Story[] =
  process.env["FAULT_POINTS"] === "all"
    ? [
        {
          name: "a guest migrates to another node and back",
          before: [ONE],
          act: async (cluster) => {
            await moveTo("node2", cluster);
            await moveTo("node1", cluster);
          },
          after: ["one"],
        },
      ]
    : [];

const SCENARIOS: readonly Story[] = [
  {
    name: "a guest migrates",
    before: [ONE, TWO],
    act: (cluster) => moveTo("node2", cluster),
    after: ["one", "two"],
  },
  ...LONG,
  {
    name: "a guest migrates, and its VM is deleted meanwhile",
    before: [ONE],
    act: async (cluster) => {
      await cluster.askForMove("asked");
      await cluster.deleteVm();
    },
    after: [],
  },
];

function twoNodes(): World {
  const between = createBetween();
  const nodes = ["node1", "node2"].map((name) => new NodeInMemory(name, between));
  const look = async (): Promise<void> => {
    const running = await Promise.all(nodes.map((node) => node.runningGuests()));
    const count = running.reduce((all, each) => all + each, 0);
    if (count > 1) throw new Error("the guest runs in two places");
  };
  return { nodes, look };
}

test.each(SCENARIOS)(
  "$name: the result is the same after a crash at any of its actions",
  { timeout: ALL_POINTS_MS },
  async (scenario) => {
    const points = await expectSameEnd(scenario, twoNodes);
    expect(points.length).toBeGreaterThan(3);
    for (const { process, before, after } of points) {
      died.push({ story: scenario.name, process, stage: stageAfter(before) });
      // Its NICs migrate too: no death removes one.
      expect([...before, ...after].filter((action) => action.endsWith("Device"))).toEqual([]);
    }
  },
);

describe("kinds of crashes", () => {
  // The scenarios above have run.
  test.each(WHO_DIES)("$id: $dies: $then", ({ deaths }) => {
    expect(died.filter(deaths).length).toBeGreaterThan(0);
  });

  test("each crash during a migration has at least one kind", () => {
    const unnamed = died.filter((death) => !WHO_DIES.some(({ deaths }) => deaths(death)));
    expect(unnamed).toEqual([]);
  });
});
