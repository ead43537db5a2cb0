// SPDX-License-Identifier: Apache-2.0
// Hotplugs on one machine, beside the same work done by hand.
import { vmManifest, type Machine } from "@patchbay/testing";
import { measureFloor } from "./floor.ts";
import { measureHotplug } from "./hotplug.ts";
import { printComparison } from "./report.ts";
import { withMachine } from "./standalone-machine.ts";

async function measureRounds(machine: Machine, rounds: number): Promise<void> {
  machine.apply(vmManifest({ name: "perf" }));
  await machine.booted("perf");
  // One of each by turns, so that both see the same machine.
  const ours = [];
  const floor = [];
  for (let round = 1; round <= rounds; round += 1) {
    process.stderr.write(`round ${String(round)} of ${String(rounds)}\n`);
    ours.push(await measureHotplug(machine, "perf"));
    floor.push(await measureFloor(machine, "perf"));
  }
  printComparison(ours, floor);
}

/** Prints the time from a request to the guest's line, by phase, beside the same work done by a shell script. */
export async function measureMachine(rounds: number): Promise<void> {
  await withMachine((machine) => measureRounds(machine, rounds));
}
