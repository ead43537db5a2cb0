// SPDX-License-Identifier: Apache-2.0
// Random requests, cancels, stops, plugs, rejections, ends and lost events in random order: the pod with the guest is
// never deleted, and finally one pod remains, on the VMI's node, with the NICs that were requested last.
import { isMigrationFinal, names, VIRTUAL_MACHINE_INSTANCE_MIGRATIONS } from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { ifacesOf } from "@patchbay/core/nics";
import { openMigration } from "@patchbay/core/migration";
import fc from "fast-check";
import { expect, test } from "vitest";
import { TwoNodes, type MigrationResult } from "./testing/two-node-cluster.ts";

type Happening =
  | { readonly what: "requestMigration" | "cancel" | "stop" | "learn" | "pass" }
  | { readonly what: "toggle"; readonly nic: string }
  | { readonly what: "end"; readonly pod: "guest's" | "other" }
  | { readonly what: "nodes"; readonly fate: MigrationResult }
  | {
      readonly what: "refuse";
      readonly call: string;
      readonly code: "KUBE_CONFLICT" | "KUBE_FORBIDDEN" | "KUBE_UNREACHABLE";
    };

function often(what: "requestMigration" | "cancel" | "stop" | "learn" | "pass", weight: number) {
  return { weight, arbitrary: fc.record({ what: fc.constant(what) }) };
}

const happening: fc.Arbitrary<Happening> = fc.oneof(
  often("requestMigration", 4),
  often("cancel", 1),
  often("stop", 1),
  often("learn", 8),
  often("pass", 8),
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constant("toggle" as const),
      nic: fc.constantFrom("one", "two", "three"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      what: fc.constant("end" as const),
      pod: fc.constantFrom("guest's" as const, "other" as const, "other" as const),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      what: fc.constant("nodes" as const),
      fate: fc.constantFrom<MigrationResult[]>("arrives", "stays", "moves on"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      what: fc.constant("refuse" as const),
      call: fc.constantFrom(
        "create pods",
        "patch pods",
        "delete pods",
        "patch virtualmachineinstances",
        "patch virtualmachineinstancemigrations",
      ),
      code: fc.constantFrom("KUBE_CONFLICT", "KUBE_FORBIDDEN", "KUBE_UNREACHABLE"),
    }),
  },
);

async function happen(world: TwoNodes, what: Happening): Promise<void> {
  switch (what.what) {
    case "requestMigration":
    case "cancel":
    case "stop":
    case "learn":
      return world[what.what]();
    case "pass":
      await world.pass();
      return;
    case "toggle":
      return world.toggle(what.nic);
    case "end":
      return world.endPod(what.pod);
    case "nodes":
      await world.actNodes(what.fate);
      return;
    case "refuse":
      world.scenario.bench.refuse(what.call, what.code);
      await world.pass();
      world.scenario.bench.refuse(what.call, undefined);
  }
}

/** Names of the networks that the pod requests. */
function askedBy({ metadata }: Pod): readonly string[] {
  const asked = parseNetworks(metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  return (asked.ok ? asked.elements : []).map(({ name }) => name).toSorted();
}

/** Checks the settled state. */
async function describeEnd(world: TwoNodes) {
  const [vmi, pods] = [await world.vmi(), await world.pods()];
  const { items } = await world.scenario.bench.server.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS);
  return {
    open: vmi && openMigration(vmi),
    label: vmi?.metadata.labels?.[names.MIGRATION_TARGET_NODE_LABEL],
    waiting: items.filter((migration) => !isMigrationFinal(migration)).length,
    surplus: Math.max(0, items.length - 5),
    leftoverPods: pods.filter(
      ({ metadata }) => metadata.name !== world.guest && world.guest !== undefined,
    ).length,
    faults: world.faults,
  };
}

async function networksAsWanted(world: TwoNodes): Promise<boolean> {
  const [vmi, pods] = [await world.vmi(), await world.pods()];
  const pod = pods.find(({ metadata }) => metadata.name === world.guest);
  if (vmi === undefined || pod === undefined) return true;
  const wanted = ifacesOf(vmi.spec).map(
    ({ name }) => vmi.spec.networks?.find((each) => each.name === name)?.multus?.networkName ?? "",
  );
  return JSON.stringify(askedBy(pod)) === JSON.stringify(wanted.toSorted());
}

/** Limit for all runs, milliseconds; they took 68 s at a load of 20. */
const ALL_RUNS_MS = 300_000;

test(
  "random migrations never lose the guest and leave nothing behind",
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(happening, { minLength: 10, maxLength: 60 }),
        async (happenings) => {
          const world = new TwoNodes();
          await world.begin();
          for (const what of happenings) await happen(world, what);
          await world.settle();
          expect(await describeEnd(world)).toEqual({
            open: undefined,
            label: undefined,
            waiting: 0,
            surplus: 0,
            leftoverPods: 0,
            faults: [],
          });
          expect(await networksAsWanted(world)).toBe(true);
        },
      ),
      { numRuns: 150 },
    );
  },
  ALL_RUNS_MS,
);
