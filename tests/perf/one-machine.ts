// SPDX-License-Identifier: Apache-2.0
// Hotplugs on one machine, compared with the same work by hand.
import { setTimeout as pass } from "node:timers/promises";
import { vmManifest, type Machine } from "@patchbay/support";
import { measureFloor } from "./floor.ts";
import { measureHotplug } from "./hotplug.ts";
import { printComparison } from "./report.ts";
import { PERF, PLAIN, withMachine, type PerfNetwork } from "./standalone-machine.ts";

/** The script's name of the domain. */
const VM = "perf";
/** An idle minute, as idle connections and processes experience it. */
const REST_MS = 60_000;

interface Series {
  readonly network: PerfNetwork;
  readonly rounds: number;
  readonly restMs: number;
}

/** Alternates both methods under equal load; the product's follows a rest. */
async function measureRounds(machine: Machine, { network, rounds, restMs }: Series): Promise<void> {
  const ours = [];
  const floor = [];
  for (let round = 1; round <= rounds; round += 1) {
    process.stderr.write(`round ${String(round)} of ${String(rounds)}\n`);
    await pass(restMs);
    ours.push(await measureHotplug(machine, VM, network.name));
    floor.push(await measureFloor(machine, VM, network));
  }
  const pace = restMs === 0 ? "back to back" : `after ${String(restMs / 1000)} s of rest`;
  const kind = network.subnet === undefined ? "without" : "with";
  printComparison(`${pace}, on a network ${kind} addresses`, ours, floor);
}

export interface Rounds {
  readonly backToBack: number;
  readonly afterRest: number;
}

/**
 * Prints the time from a request to the guest's line, by phase and component, compared with a shell script. On networks
 * with addresses the product also serves DHCP to the guest, which the script does not.
 */
export async function measureMachine({ backToBack, afterRest }: Rounds): Promise<void> {
  await withMachine(async (machine) => {
    machine.apply(vmManifest({ name: VM }));
    await machine.booted(VM);
    for (const network of [PLAIN, PERF]) {
      await measureRounds(machine, { network, rounds: backToBack, restMs: 0 });
    }
    const rested = { network: PLAIN, rounds: afterRest, restMs: REST_MS };
    if (afterRest > 0) await measureRounds(machine, rested);
  });
}
