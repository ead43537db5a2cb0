// SPDX-License-Identifier: Apache-2.0
// An upgrade at any moment: the services of this version continue from the objects and files of the last release as
// from their own. For a downgrade and for old agents, they write every field that the last release wrote.
import { isEqual } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { ACCEPTED_DIFFERENCES } from "./accepted-changes.ts";
import { lastVersion, readFolder } from "./recorded.ts";
import { applyState, leavesOf, MOMENTS, reach, readState, type State } from "./states.ts";

const version = lastVersion();
const texts = readFolder(version, "states");
const rows = MOMENTS.flatMap((moment) => {
  const text = texts.get(`${moment.name}.yaml`);
  return text === undefined ? [] : [{ ...moment, recorded: parse(text) as State }]; // as recorded
});

/** Actions on nodes: links, devices, plugins and files, not requests to the API server. */
const REQUEST = /(?:create|update|patch|delete)$/;

/** Ends with what the services do after the moment, from their own state or from the recorded one. */
async function continueFrom(moment: (typeof rows)[number], recorded?: State) {
  const world = await reach(moment);
  const { cluster } = world;
  try {
    if (recorded !== undefined) await applyState(world, recorded);
    cluster.fate.actions.length = 0;
    cluster.startAll();
    await cluster.settle();
    const actions = cluster.fate.actions.filter((action) => !REQUEST.test(action));
    return { inventory: await cluster.inventory(), actions: actions.toSorted() };
  } finally {
    await cluster.close();
  }
}

function isAccepted(path: string): boolean {
  return ACCEPTED_DIFFERENCES.some(({ pattern }) => pattern.test(path));
}

/** Differences from the recorded values, except accepted ones. New members are none, also of an empty list or object. */
function findLosses(recorded: unknown, current: unknown, path: string): readonly string[] {
  const leaves = leavesOf(current, path);
  const isKept = ([leaf, value]: readonly [string, unknown]): boolean => {
    if (isEqual(leaves.get(leaf), value)) return true;
    const isEmpty = typeof value === "object" && value !== null;
    return isEmpty && [...leaves.keys()].some((other) => other.startsWith(`${leaf}/`));
  };
  return [...leavesOf(recorded, path)]
    .filter(([leaf, value]) => !isAccepted(leaf) && !isKept([leaf, value]))
    .map(([leaf, value]) => `${leaf}: ${print(value)} became ${print(leaves.get(leaf))}`);
}

function print(value: unknown): string {
  return value === undefined ? "unset" : JSON.stringify(value);
}

function byKey({ objects }: State): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    objects.map((object) => [`${object.kind} ${object.metadata.name}`, object]),
  );
}

test("each moment is recorded, or newer than the last release", () => {
  expect(rows.map(({ name }) => `${name}.yaml`).toSorted()).toEqual([...texts.keys()].toSorted());
  expect(rows.length).toBeGreaterThan(5);
});

describe.each(rows)("at $name", (moment) => {
  const { recorded } = moment;

  test("services of this version continue from the recorded state as from their own", async () => {
    const own = await continueFrom(moment);
    const replayed = await continueFrom(moment, recorded);
    expect(replayed.actions).toEqual(own.actions);
    expect(replayed.inventory).toEqual(own.inventory);
  });

  test("this version stores everything that the last release stored", async () => {
    const world = await reach(moment);
    const current = await readState(world);
    await world.cluster.close();
    expect(findLosses(byKey(recorded), byKey(current), "")).toEqual([]);
    expect(findLosses(recorded.nodes, current.nodes, "nodes")).toEqual([]);
  });
});
