// SPDX-License-Identifier: Apache-2.0
// Consistency of lists, reads, acknowledgments and watches of many clients. CONSISTENCY_RUNS=200 runs longer,
// CONSISTENCY_SEED repeats a run.
import fc from "fast-check";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, type WatchEvent, startHarness, widgetDefinition } from "../harness.ts";
import { GROUP, RandomClient, STEP, type Step, Told, WIDGET } from "./client.ts";
import { History, keyOf, revisionOf } from "./history.ts";

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLIENTS = 4;
const STEPS = 25;
const RUNS = Number(process.env["CONSISTENCY_RUNS"] ?? "4");
const SEED = process.env["CONSISTENCY_SEED"];
/** A run takes well below a second on an idle machine. */
const RUN_MS = 10_000;

let api: Harness;
let runs = 0;

beforeAll(async () => {
  api = await startHarness();
  await api.post(DEFINITIONS, widgetDefinition(GROUP));
});

afterAll(async () => {
  await api.close();
});

/** Runs concurrent clients in their own namespace. */
async function play(
  scripts: readonly (readonly Step[])[],
): Promise<{ told: Told; history: History }> {
  runs += 1;
  const namespace = `run-${String(runs)}`;
  await api.post("/api/v1/namespaces", { metadata: { name: namespace } });
  const path = `/apis/${GROUP}/v1/namespaces/${namespace}/widgets`;
  const reported = new Told();
  const { body } = await api.get(path);
  reported.highest = revisionOf(body);
  const all = await api.watch(`${path}?watch=1&resourceVersion=${body.metadata.resourceVersion}`);
  await Promise.all(
    scripts.map(async (script) => {
      const client = new RandomClient(api, reported, { path, namespace });
      for (const step of script) {
        await client.run(step);
      }
    }),
  );
  const last = { ...WIDGET, metadata: { name: "last", labels: { app: "red" } } };
  const end = await api.post(path, last);
  expect(end.code).toBe(201);
  reported.written.push(end.body);
  await eventually(() => all.events.at(-1)?.object.metadata.name === "last", { withinMs: RUN_MS });
  await all[Symbol.asyncDispose]();
  return { told: reported, history: new History(all.events) };
}

/** Each acknowledged write has exactly one event with that state, and no other events exist. */
function checkWrites(reported: Told, history: History): void {
  for (const object of reported.written) {
    const event = history.find(revisionOf(object));
    expect(event?.object).toEqual(object);
  }
  const acknowledged = new Set(reported.written.map(revisionOf));
  const unexplained = history.events.filter(
    ({ type, object }) =>
      !acknowledged.has(revisionOf(object)) &&
      !(type === "DELETED" && reported.deletedUids.includes(object.metadata.uid)),
  );
  expect(unexplained).toEqual([]);
  expect(new Set(reported.deletedUids).size).toBe(reported.deletedUids.length);
}

/** A read returns the state of its revision, and is not older than any state known when it began. */
function checkReads(reported: Told, history: History): void {
  for (const { view, revision, items, floor } of reported.lists) {
    expect(revision).toBeGreaterThanOrEqual(floor);
    expect(items).toEqual(history.stateAt(view, revision));
  }
  for (const { object, floor } of reported.gets) {
    expect(history.find(revisionOf(object))?.object).toEqual(object);
    const newer = history.events.filter(
      (event) =>
        keyOf(event.object) === keyOf(object) &&
        revisionOf(event.object) > revisionOf(object) &&
        revisionOf(event.object) <= floor,
    );
    expect(newer).toEqual([]);
  }
}

async function checkWatches(reported: Told, history: History): Promise<void> {
  for (const { view, from, parts } of reported.watches) {
    const want = history.eventsAfter(view, from);
    const before = parts.slice(0, -1).flatMap(({ events }) => events);
    const rest = await parts.at(-1)?.first(want.length - before.length);
    await Promise.all(parts.map((part) => part[Symbol.asyncDispose]()));
    const observed: WatchEvent[] = [...before, ...(rest ?? [])];
    expect(observed).toEqual(want);
    expect(parts.at(-1)?.events.length).toBe(want.length - before.length);
  }
}

test(
  "lists, reads, acknowledgements and watches of concurrent clients agree",
  async () => {
    const script = fc.array(STEP, { minLength: STEPS, maxLength: STEPS });
    const scripts = fc.array(script, { minLength: CLIENTS, maxLength: CLIENTS });
    const property = fc.asyncProperty(scripts, async (input) => {
      const { told: reported, history } = await play(input);
      expect(reported.failures).toEqual([]);
      expect(history.faults()).toEqual([]);
      checkWrites(reported, history);
      checkReads(reported, history);
      await checkWatches(reported, history);
    });
    await fc.assert(property, {
      numRuns: RUNS,
      // Concurrent runs are not repeatable, so shrinking would take long and prove little.
      endOnFailure: true,
      ...(SEED === undefined ? {} : { seed: Number(SEED) }),
    });
  },
  20_000 + RUNS * RUN_MS,
);
