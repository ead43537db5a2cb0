// SPDX-License-Identifier: Apache-2.0
// Random edits, requests, guest ends, deletions, rejections and lost events in random order: finally the guest, its NICs
// and its pod match the last request, the VM reports that, and all writes stop.
import {
  isAbsent,
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type RunStrategy,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import { ifacesOf, networksOf } from "@patchbay/core/nics";
import { launcherPodName } from "@patchbay/core/migration";
import { aVm, type NicSketch } from "@patchbay/support";
import fc from "fast-check";
import { expect, test } from "vitest";
import { AnyWorld } from "./testing/random-cluster.ts";
import { KEY } from "./testing/bench.ts";

/** A NIC by its index: none, or its network and state. */
interface Choice {
  readonly network: string;
  readonly state: string | undefined;
}

type Happening =
  | {
      readonly what: "nics";
      readonly nics: readonly (Choice | undefined)[];
      readonly isSeen: boolean;
    }
  | { readonly what: "strategy"; readonly strategy: RunStrategy; readonly isSeen: boolean }
  | { readonly what: "memory"; readonly guest: string; readonly isSeen: boolean }
  | { readonly what: "request"; readonly words: readonly ("Start" | "Stop")[] }
  | { readonly what: "end"; readonly phase: "Succeeded" | "Failed" }
  | { readonly what: "delete"; readonly kind: "vmi" | "pod" }
  | {
      readonly what: "refuse";
      readonly call: string;
      readonly code: "KUBE_CONFLICT" | "KUBE_FORBIDDEN" | "KUBE_UNREACHABLE";
    }
  /** Updates the caches; without it events are late or lost. */
  | { readonly what: "learn" }
  | { readonly what: "pass" }
  | { readonly what: "node" }
  | { readonly what: "time"; readonly ms: number };

const isSeen = fc.boolean();
const choice = fc.option(
  fc.record({
    network: fc.constantFrom("blue", "red", "green"),
    state: fc.constantFrom(undefined, "down", "absent"),
  }),
  { nil: undefined },
);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      what: fc.constant("nics" as const),
      nics: fc.array(choice, { maxLength: 3 }),
      isSeen,
    }),
  },
  fc.record({
    what: fc.constant("strategy" as const),
    strategy: fc.constantFrom<RunStrategy[]>(
      "Always",
      "RerunOnFailure",
      "Manual",
      "Once",
      "Halted",
    ),
    isSeen,
  }),
  fc.record({
    what: fc.constant("memory" as const),
    guest: fc.constantFrom("64Mi", "128Mi"),
    isSeen,
  }),
  fc.record({
    what: fc.constant("request" as const),
    words: fc.constantFrom<("Start" | "Stop")[][]>(["Start"], ["Stop"], ["Stop", "Start"]),
  }),
  fc.record({
    what: fc.constant("end" as const),
    phase: fc.constantFrom("Succeeded" as const, "Failed" as const),
  }),
  fc.record({
    what: fc.constant("delete" as const),
    kind: fc.constantFrom("vmi" as const, "pod" as const),
  }),
  fc.record({
    what: fc.constant("refuse" as const),
    call: fc
      .tuple(
        fc.constantFrom("create", "patch", "delete"),
        fc.constantFrom("virtualmachines", "virtualmachineinstances", "pods"),
      )
      .map((words) => words.join(" ")),
    code: fc.constantFrom(
      "KUBE_CONFLICT" as const,
      "KUBE_FORBIDDEN" as const,
      "KUBE_UNREACHABLE" as const,
    ),
  }),
  { weight: 4, arbitrary: fc.constant({ what: "learn" } as const) },
  { weight: 6, arbitrary: fc.constant({ what: "pass" } as const) },
  { weight: 4, arbitrary: fc.constant({ what: "node" } as const) },
  fc.record({ what: fc.constant("time" as const), ms: fc.integer({ min: 1, max: 100_000 }) }),
);

function sketchesOf(nics: readonly (Choice | undefined)[]): readonly NicSketch[] {
  return nics.flatMap((one, index) => {
    const name = `nic${String(index)}`;
    if (one === undefined) return [];
    const mac = `02:00:00:00:00:0${String(index)}`;
    const { network, state } = one;
    return [{ name, mac, network, ...(state !== undefined && { state }) }];
  });
}

function withSpec(vm: VirtualMachine, change: (spec: VmiSpec) => VmiSpec): VirtualMachine["spec"] {
  const { template } = vm.spec;
  return { ...vm.spec, template: { ...template, spec: change(template.spec) } };
}

function withMemory(vm: VirtualMachine, guest: string): VirtualMachine["spec"] {
  return withSpec(vm, (spec) => ({ ...spec, domain: { ...spec.domain, memory: { guest } } }));
}

function withSketches(vm: VirtualMachine, sketches: readonly NicSketch[]): VirtualMachine["spec"] {
  const { networks = [], domain } = aVm({ nics: sketches }).spec.template.spec;
  const interfaces = domain.devices?.interfaces ?? [];
  return withSpec(vm, (spec) => ({
    ...spec,
    networks,
    domain: { ...spec.domain, devices: { ...spec.domain.devices, interfaces } },
  }));
}

async function happen(world: AnyWorld, one: Happening): Promise<void> {
  switch (one.what) {
    case "nics":
      return world.edit((vm) => withSketches(vm, sketchesOf(one.nics)), one.isSeen);
    case "strategy":
      return world.edit(({ spec }) => ({ ...spec, runStrategy: one.strategy }), one.isSeen);
    case "memory":
      return world.edit((vm) => withMemory(vm, one.guest), one.isSeen);
    case "request":
      return world.request(one.words);
    case "end":
      return world.endGuest(one.phase);
    case "delete":
      return world.delete(one.kind === "vmi" ? VIRTUAL_MACHINE_INSTANCES : PODS);
    case "refuse":
      world.bench.refuse(one.call, one.code);
      await world.passOnce();
      world.bench.refuse(one.call, undefined);
      return;
    case "learn":
      return world.bench.catchUp();
    case "pass":
      return world.passOnce();
    case "node":
      await world.actNode();
      return;
    case "time":
      world.bench.nowMs += one.ms;
  }
}

/** NICs as text, in any order. */
function nicsOf(spec: VmiSpec): readonly string[] {
  return ifacesOf(spec)
    .map(({ name, state = "up", macAddress = "" }) => {
      const network = networksOf(spec).find((each) => each.name === name)?.multus?.networkName;
      return `${name} ${network ?? "none"} ${state} ${macAddress}`;
    })
    .toSorted();
}

/** The last request: NICs, memory, and whether the VM runs, if its specification decides that. */
function wantedOf(happenings: readonly Happening[]) {
  const lists = happenings.flatMap((one) => (one.what === "nics" ? [sketchesOf(one.nics)] : []));
  const strategies = happenings.flatMap((one) => (one.what === "strategy" ? [one.strategy] : []));
  const memories = happenings.flatMap((one) => (one.what === "memory" ? [one.guest] : []));
  const nics = (lists.at(-1) ?? []).filter(({ state }) => state !== "absent");
  return {
    nics: nicsOf(aVm({ nics }).spec.template.spec),
    strategy: strategies.at(-1) ?? "Always",
    memory: memories.at(-1) ?? "128Mi",
  };
}

/** Checks that VM, VMI and pod match the request. */
async function expectAsked({ bench }: AnyWorld, happenings: readonly Happening[]): Promise<void> {
  const wanted = wantedOf(happenings);
  const [vm, vmi] = [await bench.vm(), await bench.vmi()];
  const { spec } = vm?.spec.template ?? {};
  expect(spec && nicsOf(spec)).toEqual(wanted.nics);
  const alive = vmi?.status?.phase === "Running" ? vmi : undefined;
  expect(wanted.strategy === "Always" && alive === undefined).toBe(false);
  expect(wanted.strategy === "Halted" && vmi !== undefined).toBe(false);
  expect(vm?.status).toMatchObject({
    observedGeneration: vm?.metadata.generation,
    created: vmi !== undefined,
    ready: alive !== undefined,
    printableStatus: alive === undefined ? "Stopped" : "Running",
  });
  expect(vm?.status?.stateChangeRequests).toBeUndefined();
  if (alive === undefined) return;
  expect(nicsOf(alive.spec)).toEqual(wanted.nics);
  expect(ifacesOf(alive.spec).some(isAbsent)).toBe(false);
  const pod = await bench.server.find(PODS, { ...KEY, name: launcherPodName(alive) });
  const asked = parseNetworks(pod?.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  const told = asked.ok ? asked.elements.map(({ name, mac }) => `${name} ${mac ?? ""}`) : [];
  const nics = wanted.nics.map((nic) => nic.split(" "));
  expect(told.toSorted()).toEqual(
    nics.map(([, net = "", , mac = ""]) => `${net} ${mac}`).toSorted(),
  );
  const waits = (vm?.status?.conditions ?? []).some(({ type }) => type === "RestartRequired");
  expect(waits).toBe(alive.spec.domain.memory?.guest !== wanted.memory);
}

test("random edits and failures end in the last requested state without further writes", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 20 }), async (happenings) => {
      const world = new AnyWorld();
      await world.bench.put(VIRTUAL_MACHINES, aVm());
      for (const one of happenings) await happen(world, one);
      await world.settle();
      await expectAsked(world, happenings);
    }),
    { numRuns: 150 },
  );
});
