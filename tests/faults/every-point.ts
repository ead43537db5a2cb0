// SPDX-License-Identifier: Apache-2.0
// Tells a story again and again: each time somebody dies one action later, until nobody does any more.
import { expect } from "vitest";
import { Cluster } from "./memory/cluster.ts";
import type { TestNode } from "./memory/node.ts";
import { begin, type Story } from "./stories.ts";

interface Ending {
  readonly inventory: unknown;
  readonly actions: readonly string[];
  readonly deaths: readonly string[];
}

/** Where a story is told. */
export interface World {
  readonly nodes: readonly TestNode[];
  /** What must hold while anything happens; throws where it does not. */
  readonly look?: () => Promise<void>;
}

/** The story, in which the process of that action dies; 0: nobody does. */
async function tell(story: Story, { nodes, look }: World, deadly: number): Promise<Ending> {
  const cluster = new Cluster(nodes, look);
  try {
    await begin(story, cluster);
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

/** A point of a story at which somebody died. */
export interface Point {
  /** By name. */
  readonly process: string;
  /** All that was done by then, the last one by the process that died. */
  readonly before: readonly string[];
  /** What was done afterwards. */
  readonly after: readonly string[];
}

/** Expects the same end whoever dies; the points at which somebody did. */
export async function expectSameEnd(
  story: Story,
  makeWorld: () => World,
): Promise<readonly Point[]> {
  const undisturbed = await tell(story, makeWorld(), 0);
  expect(nicsIn(undisturbed.inventory)).toEqual(story.after);
  const points: Point[] = [];
  for (;;) {
    const deadly = points.length + 1;
    const { inventory, actions, deaths } = await tell(story, makeWorld(), deadly);
    const [process] = deaths;
    if (process === undefined) return points;
    const when = `after action ${String(deadly)}, ${actions[deadly - 1] ?? ""}`;
    expect(inventory, `what is there ${when}`).toEqual(undisturbed.inventory);
    points.push({ process, before: actions.slice(0, deadly), after: actions.slice(deadly) });
  }
}
