// SPDX-License-Identifier: Apache-2.0
// Durability of acknowledged and observed writes after kill -9 under load. DURABILITY_ROUNDS=30 runs longer.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ChildServer, startInVain } from "./child-process.ts";
import type { Body, WatchEvent } from "../harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const ROUNDS = Number(process.env["DURABILITY_ROUNDS"] ?? "3");
const WRITERS = 16;
const WATCHES = 3;
/** Acknowledgments of one round before the kill. */
const WRITES = 150;
const ROUND_MS = 20_000;

let directory: string;
let store: string;
let server: ChildServer | undefined;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "apiserver-durability-"));
  store = join(directory, "store.sqlite");
});

afterEach(async () => {
  await server?.kill();
  await rm(directory, { recursive: true, force: true });
});

function revisionOf({ metadata }: Body): number {
  return Number(metadata.resourceVersion);
}

/** Creates, changes and deletes objects until the server is dead; `acknowledge` receives the results. */
async function writeForEver(
  of: ChildServer,
  name: string,
  acknowledge: (type: string, object: Body) => void,
): Promise<never> {
  for (let count = 0; ; count += 1) {
    const own = `${name}-${String(count)}`;
    const created = await of.ask("POST", MAPS, { metadata: { name: own }, data: { a: "1" } });
    acknowledge("ADDED", created.body);
    const changed = await of.ask("PATCH", `${MAPS}/${own}`, { data: { a: "2" } });
    acknowledge("MODIFIED", changed.body);
    if (count % 3 === 0) {
      await of.ask("DELETE", `${MAPS}/${own}`);
      acknowledge("DELETED", changed.body);
    }
  }
}

/** Acknowledgments before the kill. */
async function writeUntilKilled(of: ChildServer, round: number): Promise<readonly WatchEvent[]> {
  const acknowledged: WatchEvent[] = [];
  const enough = Promise.withResolvers<undefined>();
  const writers = Array.from({ length: WRITERS }, (_, writer) =>
    writeForEver(of, `r${String(round)}-w${String(writer)}`, (type, object) => {
      acknowledged.push({ type, object });
      if (acknowledged.length >= WRITES) {
        enough.resolve(undefined);
      }
    }),
  );
  const ended = Promise.allSettled(writers);
  await Promise.race([enough.promise, ended]);
  await of.kill();
  await ended;
  return acknowledged;
}

function openWatch(of: ChildServer, revision: number) {
  return of.watch(`${MAPS}?watch=1&resourceVersion=${String(revision)}`);
}

function lastRevision(events: readonly WatchEvent[], otherwise: number): number {
  const last = events.at(-1);
  return last === undefined ? otherwise : revisionOf(last.object);
}

/** The proof of a write: its revision, or the uid for a deletion, whose revision is not returned. */
function isThere({ type, object }: WatchEvent, truth: readonly WatchEvent[]): boolean {
  return truth.some(
    (event) =>
      event.type === type &&
      event.object.metadata.uid === object.metadata.uid &&
      (type === "DELETED" || revisionOf(event.object) === revisionOf(object)),
  );
}

test(
  "kill -9 under load loses no acknowledged or observed write, and watches resume without gaps or duplicates",
  async () => {
    const acknowledged: WatchEvent[] = [];
    server = await ChildServer.start(store);
    const begin = revisionOf((await server.ask("GET", MAPS)).body);
    const reported: WatchEvent[][] = Array.from({ length: WATCHES }, () => []);
    for (let round = 0; round < ROUNDS; round += 1) {
      const running = server;
      const watches = reported.map((events) => openWatch(running, lastRevision(events, begin)));
      acknowledged.push(...(await writeUntilKilled(running, round)));
      for (const [index, watch] of watches.entries()) {
        await watch[Symbol.asyncDispose]();
        reported[index]?.push(...watch.events);
      }
      server = await ChildServer.start(store);
    }
    const { body: end } = await server.ask("POST", MAPS, { metadata: { name: "end" } });
    await using replay = openWatch(server, begin);
    while (lastRevision(replay.events, begin) < revisionOf(end) && !replay.ended) {
      await replay.first(replay.events.length + 1);
    }
    const truth = replay.events;
    const revisions = truth.map(({ object }) => revisionOf(object));
    expect(revisions).toEqual([...new Set(revisions)].sort((left, right) => left - right));
    expect(acknowledged.filter((write) => !isThere(write, truth))).toEqual([]);
    for (const events of reported) {
      expect(events.length).toBeGreaterThan(0);
      // The events of a watch before a crash are a prefix of the later log.
      expect(events).toEqual(truth.slice(0, events.length));
    }
  },
  ROUND_MS * (ROUNDS + 1),
);

test("rejects a second server on the same store", async () => {
  server = await ChildServer.start(store);
  const { code, errors } = await startInVain(store);
  expect(code).toBe(1);
  expect(errors).toContain("STORE_UNUSABLE");
  expect(errors).toContain("locked");
});

test("rejects a file that is not a store and leaves it unchanged", async () => {
  await writeFile(store, "not a database, but long enough to be taken for one".repeat(100));
  const { code, errors } = await startInVain(store);
  expect(code).toBe(1);
  expect(errors).toContain("STORE_UNUSABLE");
});
