// SPDX-License-Identifier: Apache-2.0
// Hotplugs on one machine, beside the same work done by hand.
import { setTimeout as pass } from "node:timers/promises";
import { vmManifest, type Machine } from "@patchbay/testing";
import { measureFloor } from "./floor.ts";
import { measureHotplug } from "./hotplug.ts";
import { printComparison } from "./report.ts";
import { withMachine } from "./standalone-machine.ts";

/** A minute in which nothing happens, as idle connections and processes see it. */
const REST_MS = 60_000;

/** One of each by turns, so that both see the same machine; before the product's there is a rest. */
async function measureRounds(machine: Machine, rounds: number, restMs: number): Promise<void> {
  const ours = [];
  const floor = [];
  for (let round = 1; round <= rounds; round += 1) {
    process.stderr.write(`round ${String(round)} of ${String(rounds)}\n`);
    await pass(restMs);
    ours.push(await measureHotplug(machine, "perf"));
    floor.push(await measureFloor(machine, "perf"));
  }
  const title = restMs === 0 ? "back to back" : `after ${String(restMs / 1000)} s of rest`;
  printComparison(title, ours, floor);
}

/** How often each is done. */
export interface Rounds {
  readonly backToBack: number;
  readonly afterRest: number;
}

/** Prints the time from a request to the guest's line, by moment and hop, beside the same work done by a shell script. */
export async function measureMachine({ backToBack, afterRest }: Rounds): Promise<void> {
  await withMachine(async (machine) => {
    machine.apply(vmManifest({ name: "perf" }));
    await machine.booted("perf");
    await measureRounds(machine, backToBack, 0);
    if (afterRest > 0) await measureRounds(machine, afterRest, REST_MS);
  });
}
