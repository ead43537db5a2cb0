// SPDX-License-Identifier: Apache-2.0
// virt-controller, net-agent and virt-handler together on fakes: one of them dies after each single action of a story.
import { afterAll, expect, test } from "vitest";
import { Cluster } from "./memory/cluster.ts";
import { NodeInMemory } from "./memory/node-in-memory.ts";
import { begin, STORIES, type Story } from "./stories.ts";

interface Ending {
  readonly inventory: unknown;
  readonly actions: readonly string[];
  readonly deaths: readonly string[];
}

/** The story, in which the process of that action dies; 0: nobody does. */
async function tell(story: Story, deadly: number): Promise<Ending> {
  const cluster = await begin(story, new Cluster(new NodeInMemory()));
  try {
    cluster.fate.strikeAt(deadly);
    await story.act(cluster);
    await cluster.settle();
    const { fate, deaths } = cluster;
    return { inventory: await cluster.inventory(), actions: [...fate.actions], deaths };
  } finally {
    await cluster.close();
  }
}

/** Aliases of the guest's NICs, by name. */
function nicsIn(inventory: unknown): readonly string[] {
  const [, live = ""] = /"live":"(.*?[^\\])"/.exec(JSON.stringify(inventory)) ?? [];
  return [...live.matchAll(/ua-([a-z]+)/g)].map(([, name = ""]) => name).sort();
}

/** Points at which somebody died, by story. */
const counted = new Map<string, number>();

afterAll(() => {
  const points = [...counted].map(([name, count]) => `${name} ${String(count)}`);
  const sum = [...counted.values()].reduce((total, count) => total + count, 0);
  process.stdout.write(`deaths on fakes: ${String(sum)} points: ${points.join(", ")}\n`);
});

/** All points of one story on a busy machine, milliseconds. */
const ALL_POINTS_MS = 120_000;

test.each(STORIES)(
  "$name ends the same after a death at any of its actions",
  { timeout: ALL_POINTS_MS },
  async (story) => {
    const undisturbed = await tell(story, 0);
    expect(nicsIn(undisturbed.inventory)).toEqual(story.after);
    let points = 0;
    for (;;) {
      const ending = await tell(story, points + 1);
      if (ending.deaths.length === 0) break;
      points += 1;
      const last = ending.actions[points - 1] ?? "";
      expect(ending.inventory, `after action ${String(points)}, ${last}`).toEqual(
        undisturbed.inventory,
      );
    }
    expect(points).toBeGreaterThan(3);
    counted.set(story.name, points);
  },
);
