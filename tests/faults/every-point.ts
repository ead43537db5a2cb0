// SPDX-License-Identifier: Apache-2.0
// Repeats a scenario, each time with a process death one action later, until no death occurs any more.
import { expect } from "vitest";
import { Cluster } from "./memory/cluster.ts";
import type { TestNode } from "./memory/node.ts";
import { begin, type Story } from "./stories.ts";

interface Ending {
  readonly inventory: unknown;
  readonly actions: readonly string[];
  readonly deaths: readonly string[];
}

/** The world of a scenario. */
export interface World {
  readonly nodes: readonly TestNode[];
  /** Checks an invariant during the whole scenario; throws when it is violated. */
  readonly look?: () => Promise<void>;
}

/** Runs the scenario, in which the process of that action dies; 0: none. */
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

/** A point of a scenario at which a process died. */
export interface Point {
  readonly process: string;
  /** Actions before the death; the last one is the dead process's. */
  readonly before: readonly string[];
  /** Actions after the death. */
  readonly after: readonly string[];
}

/** Expects the same result for every death; returns the points of the deaths. */
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
