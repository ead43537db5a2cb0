// SPDX-License-Identifier: Apache-2.0
// NICs go in and out of several VMs again and again: nothing grows, nothing is lost, nothing becomes slow. 200 rounds of 4
// NICs on 4 VMs by `npm run soak`, else 20 of 2 on 2.
import { Plugger, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { inventoryOf, othersHaveLeft } from "../inventory.ts";
import { machine, setAddress } from "../machine.ts";
import { heldByServices, Pings, type Held } from "./soak.ts";

const ROUNDS = Number(process.env["SOAK_ROUNDS"] ?? "20");
/** VMs, and NICs in each of them. */
const SIZE = Number(process.env["SOAK_SIZE"] ?? "2");
/** Rounds in which caches fill. */
const WARM_UP = 3;
const SHARED = ["alpha", "beta"];
const OWN = Array.from({ length: Math.max(0, SIZE - 2) }, (_, index) => `soak${String(index)}`);
const VMS = [...SHARED, ...OWN];
const STEADY = { name: "steady", network: "red" };
const NICS = Array.from({ length: SIZE }, (_, index) => ({
  name: `soak${String(index)}`,
  network: "blue",
}));
/** Memory that a service may have more of after the second half of the rounds, bytes; caches fill in the first. */
const HEAP_GROWTH_MAX = 3 * 1024 * 1024;
/** How much slower the last rounds may be than the first: a machine is not the same all the time. */
const SLOWER_MAX = 1.3;

let plugger: Plugger;

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? NaN;
}

/** One plug and one unplug of all NICs in all VMs at once; milliseconds. */
async function round(): Promise<number> {
  const startMs = performance.now();
  await Promise.all(VMS.map((vm) => plugger.plug(vm, NICS)));
  await Promise.all(VMS.map((vm) => plugger.unplug(vm, NICS)));
  return performance.now() - startMs;
}

function inventories(): readonly unknown[] {
  return VMS.map((vm) => inventoryOf(machine.findPod(vm)?.metadata.uid ?? ""));
}

/** So that a person sees how it goes. */
async function tell(count: number, ms: number): Promise<void> {
  const held = await heldByServices();
  const heaps = [...held].map(([name, { heap }]) => `${name} ${(heap / 1e6).toFixed(1)} MB`);
  process.stdout.write(`soak: round ${String(count)}, ${ms.toFixed(0)} ms; ${heaps.join(", ")}\n`);
}

/** What is to stay as it is. */
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
  for (const vm of OWN) machine.kubectl("delete", "vm", vm);
  await plugger.close();
});

test("nothing grows, no packet is lost on the other NICs, the last rounds are as fast as the first", async () => {
  for (let count = 0; count < WARM_UP; count += 1) await round();
  const before = { onHost: inventories(), held: await heldByServices() };
  // Each VM has one that pings, or that is pinged.
  const pings = await Promise.all(
    VMS.filter((_, index) => index % 2 === 0).map((vm, index) =>
      Pings.start(vm, `10.80.0.${String(2 * index + 2)}`),
    ),
  );
  const times: number[] = [];
  let middle = before.held;
  for (let count = 0; count < ROUNDS; count += 1) {
    times.push(await round());
    if (count % 10 === 9) await tell(count + 1, times.at(-1) ?? NaN);
    if (count === ROUNDS >> 1) middle = await heldByServices();
  }
  for (const one of pings) expect(await one.stop()).toBeGreaterThan(ROUNDS * 10);
  const after = { onHost: inventories(), held: await heldByServices() };
  expect(after.onHost).toEqual(before.onHost);
  expect(countsOf(after.held)).toEqual(countsOf(before.held));
  for (const [name, { heap, descriptors }] of after.held) {
    const first = before.held.get(name);
    expect(heap - (middle.get(name)?.heap ?? 0), `bytes that ${name} has more`).toBeLessThan(
      HEAP_GROWTH_MAX,
    );
    // Connections to the API server come and go.
    expect(descriptors - (first?.descriptors ?? 0), `files of ${name}`).toBeLessThan(5);
  }
  const quarter = Math.ceil(ROUNDS / 4);
  const [first, last] = [median(times.slice(0, quarter)), median(times.slice(-quarter))];
  process.stdout.write(`soak: rounds of ${first.toFixed(0)} ms first, ${last.toFixed(0)} last\n`);
  expect(last).toBeLessThan(first * SLOWER_MAX);
}, 7_200_000);
