// SPDX-License-Identifier: Apache-2.0
// Repeated plugs and unplugs on several VMs: no leak, no loss, no slowdown. 200 rounds of 4 NICs on 4 VMs by `npm run
// soak`, else 20 of 2 on 2.
import { Plugger, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { inventoryOf, othersHaveLeft } from "../inventory.ts";
import { machine, setAddress } from "../machine.ts";
import { Pings } from "./pings.ts";
import { heldByServices, noMoreFilesThan, processorMsOfServices, type Held } from "./soak.ts";

const ROUNDS = Number(process.env["SOAK_ROUNDS"] ?? "20");
/** VMs, and NICs in each of them. */
const SIZE = Number(process.env["SOAK_SIZE"] ?? "2");
/** Warm-up rounds for caches. */
const WARM_UP = 3;
const SHARED = ["alpha", "beta"];
const OWN = Array.from({ length: Math.max(0, SIZE - 2) }, (_, index) => `soak${String(index)}`);
const VMS = [...SHARED, ...OWN];
const STEADY = { name: "steady", network: "red" };
const NICS = Array.from({ length: SIZE }, (_, index) => ({
  name: `soak${String(index)}`,
  network: "blue",
}));
/** Allowed memory growth of a service after the second half of the rounds, bytes; caches fill in the first. */
const HEAP_GROWTH_MAX = 3 * 1024 * 1024;
/**
 * Allowed factor of processor time between the first and last rounds. Wall clock is printed, not judged, because other
 * suites share the machine.
 */
const DEARER_MAX = 1.5;

let plugger: Plugger;

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? NaN;
}

/** What a round took, milliseconds. */
interface Took {
  readonly clockMs: number;
  readonly processorMs: number;
}

async function round(): Promise<Took> {
  const startMs = performance.now();
  const processorMs = processorMsOfServices();
  await Promise.all(VMS.map((vm) => plugger.plug(vm, NICS)));
  await Promise.all(VMS.map((vm) => plugger.unplug(vm, NICS)));
  return {
    clockMs: performance.now() - startMs,
    processorMs: processorMsOfServices() - processorMs,
  };
}

function medians(rounds: readonly Took[]): Took {
  return {
    clockMs: median(rounds.map(({ clockMs }) => clockMs)),
    processorMs: median(rounds.map(({ processorMs }) => processorMs)),
  };
}

function inventories(): readonly unknown[] {
  return VMS.map((vm) => inventoryOf(machine.findPod(vm)?.metadata.uid ?? ""));
}

/** Progress for users. */
async function tell(count: number, { clockMs, processorMs }: Took): Promise<void> {
  const held = await heldByServices();
  const heaps = [...held].map(([name, { heap }]) => `${name} ${(heap / 1e6).toFixed(1)} MB`);
  const took = `${clockMs.toFixed(0)} ms, ${processorMs.toFixed(0)} ms of processors`;
  process.stdout.write(`soak: round ${String(count)}, ${took}; ${heaps.join(", ")}\n`);
}

/** State that must stay constant. */
function countsOf(held: ReadonlyMap<string, Held>): unknown {
  return [...held].map(([name, { threads, children }]) => ({ name, threads, children }));
}

beforeAll(async () => {
  await othersHaveLeft();
  for (const name of OWN) machine.apply(vmManifest({ name }));
  for (const vm of OWN) await machine.booted(vm);
  plugger = await Plugger.open(machine);
  for (const [index, vm] of VMS.entries()) {
    await plugger.plug(vm, [STEADY]);
    await setAddress(vm, STEADY.name, `10.80.0.${String(index + 1)}/24`);
  }
});

afterAll(async () => {
  for (const vm of SHARED) await plugger.unplug(vm, [STEADY]);
  for (const vm of OWN) machine.delete("vm", vm);
  await plugger.close();
});

test("resources do not grow, other NICs lose no packet, and the last rounds cost as much as the first", async () => {
  for (let count = 0; count < WARM_UP; count += 1) await round();
  const before = { onHost: inventories(), held: await heldByServices() };
  // Each VM pings or is pinged.
  const pings = await Promise.all(
    VMS.filter((_, index) => index % 2 === 0).map((vm, index) =>
      Pings.start(machine.console(vm), `10.80.0.${String(2 * index + 2)}`),
    ),
  );
  const rounds: Took[] = [];
  let middle = before.held;
  for (let count = 0; count < ROUNDS; count += 1) {
    const took = await round();
    rounds.push(took);
    if (count % 10 === 9) await tell(count + 1, took);
    if (count === ROUNDS >> 1) middle = await heldByServices();
  }
  for (const one of pings) expect(await one.stop()).toBeGreaterThan(ROUNDS * 10);
  const after = { onHost: inventories(), held: await heldByServices() };
  expect(after.onHost).toEqual(before.onHost);
  expect(countsOf(after.held)).toEqual(countsOf(before.held));
  for (const [name, { heap }] of after.held) {
    expect(heap - (middle.get(name)?.heap ?? 0), `bytes that ${name} has more`).toBeLessThan(
      HEAP_GROWTH_MAX,
    );
  }
  await noMoreFilesThan(before.held);
  const quarter = Math.ceil(ROUNDS / 4);
  const [first, last] = [medians(rounds.slice(0, quarter)), medians(rounds.slice(-quarter))];
  process.stdout.write(
    `soak: rounds of ${first.clockMs.toFixed(0)} ms first, ${last.clockMs.toFixed(0)} last; ` +
      `of processors ${first.processorMs.toFixed(0)} and ${last.processorMs.toFixed(0)}\n`,
  );
  expect(last.processorMs).toBeLessThan(first.processorMs * DEARER_MAX);
}, 7_200_000);
