// SPDX-License-Identifier: Apache-2.0
// The end of all pods of a machine, on an API server in memory.
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { KubeClient } from "@patchbay/kube";
import { createFakeStore } from "@patchbay/kube/testing";
import type { DeleteOptions } from "@patchbay/core/interfaces";
import { createFakeClock, createFakeFiles, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import { shutDownGuests } from "./guests.ts";

const PATHS = buildPaths("/d");
const ROW = `${PATHS.netAgent}/journal/row`;

function aPod(name: string, graceSeconds?: number): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "ns", uid: `uid-${name}` },
    spec: {
      containers: [],
      ...(graceSeconds !== undefined && { terminationGracePeriodSeconds: graceSeconds }),
    },
  };
}

/** A machine whose pods end when a test removes them. */
class World {
  readonly clock = createFakeClock();
  readonly files = createFakeFiles();
  readonly log = createFakeLogger();
  readonly deletions: string[] = [];
  readonly selections: unknown[] = [];
  readonly reports: string[] = [];
  #emit: (event: unknown) => void = () => undefined;

  shutDown(): Promise<number> {
    const store = {
      ...createFakeStore(),
      delete: (_type: unknown, { name }: { name: string }, options: DeleteOptions = {}) => {
        const { uid = "", gracePeriodSeconds } = options;
        this.deletions.push([name, uid, gracePeriodSeconds ?? "own"].join(" "));
        return Promise.resolve();
      },
    };
    const client: Pick<KubeClient, "reflect" | "store"> = {
      store,
      reflect: (type, selection) => {
        this.selections.push([type.resource, selection]);
        const subscribe = (emit: (event: unknown) => void): object => {
          this.#emit = emit;
          return { unsubscribe: () => undefined };
        };
        return { subscribe } as never; // a cache uses nothing else of it
      },
    };
    const { clock, files, log } = this;
    const report = (text: string): void => {
      this.reports.push(text);
    };
    return shutDownGuests({
      client: client as KubeClient,
      files,
      clock,
      log,
      paths: PATHS,
      report,
    });
  }

  async list(...pods: readonly Pod[]): Promise<void> {
    this.#emit({ kind: "listed", objects: pods });
    await settle();
  }

  async end(pod: Pod): Promise<void> {
    this.#emit({ kind: "removed", object: pod });
    await settle();
  }
}

let world: World;
beforeEach(() => {
  world = new World();
});

test("deletes pods of the node with their own grace period, and waits", async () => {
  const [one, two] = [aPod("one"), aPod("two", 5)];
  const ending = world.shutDown();
  await world.list(one, two);
  expect(world.selections).toEqual([[PODS.resource, { fieldSelector: "spec.nodeName!=" }]]);
  expect(world.deletions).toEqual(["one uid-one own", "two uid-two own"]);
  await world.end(one);
  expect(world.clock.dueMs).toContain(60_000);
  await world.end(two);
  expect(await ending).toBe(2);
  expect([world.clock.dueMs, world.log.lines]).toEqual([[], []]);
});

test("prints which pods end, have ended, and are killed", async () => {
  const many = ["one", "two", "three", "four", "five", "six"].map((name) => aPod(name, 10));
  const [one, two, ...others] = many;
  const ending = world.shutDown();
  await world.list(...many);
  if (one !== undefined) await world.end(one);
  for (const pod of others) await world.end(pod);
  await world.clock.advance(40_000);
  if (two !== undefined) await world.end(two);
  expect(await ending).toBe(6);
  expect(world.reports).toEqual([
    "waiting up to 40 s for guests and pods to end: ns/five, ns/four, ns/one, ns/six, ns/three and 1 more",
    "pod ns/one ended, 5 left",
    "pod ns/three ended, 4 left",
    "pod ns/four ended, 3 left",
    "pod ns/five ended, 2 left",
    "pod ns/six ended, 1 left",
    "killing pods that did not end in time: ns/two",
    "pod ns/two ended, 0 left",
  ]);
});

test.each([
  { name: "the default grace period", pods: [aPod("one")], want: 60_000 },
  {
    name: "the longest grace",
    pods: [aPod("one", 5), aPod("two", 50), aPod("three", 6)],
    want: 80_000,
  },
  { name: "no grace", pods: [aPod("one", 0)], want: 30_000 },
  { name: "a grace period above the limit", pods: [aPod("one", 1000)], want: 180_000 },
])("kills pods with $name after $want ms", async ({ pods, want }) => {
  const ending = world.shutDown();
  await world.list(...pods);
  world.deletions.length = 0;
  await world.clock.advance(want - 1);
  expect(world.deletions).toEqual([]);
  await world.clock.advance(1);
  expect(world.deletions).toEqual(
    pods.map(({ metadata: { name } }) => `${name} uid-${name} 0`).toSorted(),
  );
  await world.clock.advance(20_000);
  expect(await ending).toBe(pods.length);
  expect(world.log.lines).toMatchObject([{ level: "warn", fields: { count: pods.length } }]);
});

test("an unresponsive API server delays the shutdown by 30 s", async () => {
  const ending = world.shutDown();
  await settle();
  await world.clock.advance(30_000);
  expect(await ending).toBe(0);
  expect(world.deletions).toEqual([]);
});

describe("the network agent's journal", () => {
  test("is awaited until it is empty", async () => {
    await world.files.writeAtomic(ROW, "{}");
    let isOver = false;
    const ending = world.shutDown().then(() => {
      isOver = true;
    });
    await world.list();
    expect(isOver).toBe(false);
    expect(world.clock.dueMs).toContain(20_000);
    await world.files.remove(ROW);
    await ending;
    expect([world.clock.dueMs, world.log.lines]).toEqual([[], []]);
  });

  test.each([
    { name: "if it is not empty after 20 s", fails: false },
    { name: "if it cannot be read", fails: true },
  ])("reports $name", async ({ fails }) => {
    await world.files.writeAtomic(ROW, "{}");
    if (fails) world.files.list = () => Promise.reject(new Error("disk"));
    const ending = world.shutDown();
    await world.list();
    await world.clock.advance(fails ? 0 : 20_000);
    expect(await ending).toBe(0);
    expect(world.log.lines).toMatchObject([
      { level: "warn", fields: { path: `${PATHS.netAgent}/journal` } },
    ]);
  });
});
