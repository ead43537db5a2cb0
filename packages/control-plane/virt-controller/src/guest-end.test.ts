// SPDX-License-Identifier: Apache-2.0
// VMs whose guest ends, by run strategy and end, with the shown states. Source: KubeVirt
// pkg/virt-controller/watch/vm.
import { PODS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, type RunStrategy } from "@patchbay/api";
import { aVm } from "@patchbay/support";
import { expect, test } from "vitest";
import { AnyWorld } from "./testing/random-cluster.ts";

const HOUR_MS = 3_600_000;

async function loseNode(world: AnyWorld): Promise<void> {
  await world.setNodeReady(false);
  expect(await world.statusHistory()).toEqual(["Running", "Unknown"]);
  await world.delete(PODS);
  await world.actNode();
  await world.bench.pass();
  await world.setNodeReady(true);
}

const ENDS = {
  "shuts down": (world: AnyWorld) => world.endGuest("Succeeded"),
  crashes: (world: AnyWorld) => world.endGuest("Failed"),
  "crashes after an hour": async (world: AnyWorld) => {
    world.bench.nowMs += HOUR_MS;
    await world.settle();
    await world.endGuest("Failed");
  },
  "is killed with its pod": (world: AnyWorld) =>
    world.endPod({ phase: "Failed", reason: "Evicted" }),
  "loses its pod": (world: AnyWorld) => world.delete(PODS),
  "loses its VMI": (world: AnyWorld) => world.delete(VIRTUAL_MACHINE_INSTANCES),
  // Its pod is deleted with the node, and the next pod gets another node.
  "loses its node": loseNode,
} as const;

type End = keyof typeof ENDS;
const STRATEGIES = ["Always", "RerunOnFailure", "Manual", "Once"] as const;

async function play(strategy: RunStrategy, end: End) {
  const world = new AnyWorld();
  const { bench } = world;
  await world.setNodeReady(true);
  const vm = aVm();
  await bench.put(VIRTUAL_MACHINES, { ...vm, spec: { ...vm.spec, runStrategy: strategy } });
  await world.statusHistory();
  if (strategy === "Manual") await world.request(["Start"]);
  await world.statusHistory();
  const first = await bench.vmi();
  expect(first?.status?.phase).toBe("Running");
  await ENDS[end](world);
  const words = await world.statusHistory();
  const failures = (await bench.vm())?.status?.startFailure?.consecutiveFailCount ?? 0;
  await world.settle();
  const last = await bench.vmi();
  const isNew = last !== undefined && last.metadata.uid !== first?.metadata.uid;
  const after = last === undefined ? "no VMI" : isNew ? "another guest" : "the ended VMI";
  const printed = (await bench.vm())?.status?.printableStatus ?? "";
  return { words: words.join(" "), failures, after, printed };
}

/** The printable statuses until nothing changes without time passing, and the final state. */
type Row = readonly [End, words: string, after: string];

const ANOTHER = "another guest";
const GONE = "no VMI";
const LEFT = "the ended VMI";

/** For Always; RerunOnFailure differs in the first and the last two. */
const AGAIN: readonly Row[] = [
  ["crashes", "CrashLoopBackOff", ANOTHER],
  ["crashes after an hour", "Stopped Starting Running", ANOTHER],
  ["is killed with its pod", "Running Stopped Starting Running", ANOTHER],
  ["loses its pod", "Running CrashLoopBackOff", ANOTHER],
  ["loses its node", "Unknown Stopped Starting Running", ANOTHER],
];

/** For Manual and Once, which never restart a guest. */
const STAYS: readonly Row[] = [
  ["shuts down", "Stopped", LEFT],
  ["crashes", "Stopped", LEFT],
  ["crashes after an hour", "Stopped", LEFT],
  ["is killed with its pod", "Running Stopped", LEFT],
  ["loses its pod", "Running Stopped", LEFT],
  ["loses its VMI", "Stopping Stopped", GONE],
  ["loses its node", "Unknown Stopped", LEFT],
];

const TABLE: Readonly<Record<(typeof STRATEGIES)[number], readonly Row[]>> = {
  Always: [
    ["shuts down", "Stopped Starting Running", ANOTHER],
    ...AGAIN,
    ["loses its VMI", "Stopping Starting Running", ANOTHER],
  ],
  RerunOnFailure: [
    ["shuts down", "Stopped", GONE],
    ...AGAIN,
    ["loses its VMI", "Stopping Stopped", GONE],
  ],
  Manual: STAYS,
  Once: STAYS,
};

const ROWS = STRATEGIES.flatMap((strategy) =>
  TABLE[strategy].map(([end, words, after]) => ({ strategy, end, words, after })),
);

test("the table covers each run strategy with each end", () => {
  for (const strategy of STRATEGIES) {
    const ends = TABLE[strategy].map(([end]) => end);
    expect(ends.toSorted()).toEqual(Object.keys(ENDS).toSorted());
  }
});

test.each(ROWS)("$strategy, a guest that $end: shows $words, then $after", async (row) => {
  const { strategy, end, words, after } = row;
  expect(await play(strategy, end)).toEqual({
    words,
    after,
    printed: after === ANOTHER ? "Running" : "Stopped",
    failures: words.includes("CrashLoopBackOff") ? 1 : 0,
  });
});

test.each(["Always", "RerunOnFailure"] as const)(
  "%s: retries failed starts with growing delays until one succeeds",
  async (strategy) => {
    const world = new AnyWorld();
    const { bench } = world;
    const vm = aVm();
    await bench.put(VIRTUAL_MACHINES, { ...vm, spec: { ...vm.spec, runStrategy: strategy } });
    for (const pauseS of [10, 40, 90, 160]) {
      for (let pass = 0; pass < 3; pass += 1) {
        await bench.pass();
        await bench.catchUp();
      }
      const begunMs = bench.nowMs;
      await world.endPod({ phase: "Failed" });
      expect((await world.statusHistory()).at(-1)).toBe("CrashLoopBackOff");
      const { startFailure } = (await bench.vm())?.status ?? {};
      const untilMs = Date.parse(startFailure?.retryAfterTimestamp ?? "");
      expect(untilMs - begunMs).toBe(pauseS * 1000);
      expect(await bench.vmi()).toBeUndefined();
      bench.nowMs = untilMs;
    }
    await world.settle();
    const { status } = (await bench.vm()) ?? {};
    expect(status?.printableStatus).toBe("Running");
    expect(status?.startFailure).toBeUndefined();
  },
);
