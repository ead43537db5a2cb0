// SPDX-License-Identifier: Apache-2.0
// Two replicas of each service, and the effect on plugs when the leader and one virt-api end.
import { eventually } from "@patchbay/support";
import { load } from "../apiserver/load.ts";
import type { Service } from "./service.ts";
import type { Stage } from "./stage.ts";

export const PARALLEL = 4;

/** Time limit for a leader election, also with many VMs on a busy machine, milliseconds. */
const LEADER_MS = 120_000;

/** Results of many plugs. */
export interface Failover {
  /** From the first request to the last NIC, milliseconds. */
  readonly totalMs: number;
  /** The longest time without a newly plugged NIC, milliseconds. */
  readonly longestGapMs: number;
  /** Requests that failed and were repeated. */
  readonly refused: number;
  /** VMs whose spec, status or pod does not name the NIC exactly once. */
  readonly wrong: readonly string[];
}

/** The leading virt-controller, once there is one. */
export function leaderOf(stage: Stage): Promise<Service> {
  return eventually(() => stage.leader(), { withinMs: LEADER_MS });
}

/** Requests a NIC until it is accepted; returns the number of rejections. */
async function askThrough(stage: Stage, index: number): Promise<number> {
  for (let refused = 0; ; refused += 1) {
    try {
      await stage.vms.ask(index);
      return refused;
    } catch (error) {
      // An aborted request may have been executed.
      if (stage.vms.isAskedFor(index)) return refused + 1;
      if (refused > 100) throw error;
    }
  }
}

/** Plugs a NIC into each of so many VMs; after a third the leader is killed, after two thirds one virt-api ends. */
export async function plugThroughFailures(
  stage: Stage,
  { count, virtApi }: { readonly count: number; readonly virtApi: "asked" | "killed" },
): Promise<Failover> {
  const moments = [performance.now()];
  const forget = stage.vms.onPlugged(() => moments.push(performance.now()));
  const events: Readonly<Record<number, () => Promise<void>>> = {
    [Math.floor(count / 3)]: async () => stage.end(await leaderOf(stage), "killed"),
    [Math.floor((2 * count) / 3)]: () => stage.end(stage.virtApi, virtApi),
  };
  const ends: Promise<void>[] = [];
  let refused = 0;
  await load(count, PARALLEL, async (index) => {
    const event = events[index];
    if (event !== undefined) ends.push(event());
    refused += await askThrough(stage, index);
  });
  await Promise.all(ends);
  await stage.vms.allPlugged(count);
  forget();
  const gaps = moments.slice(1).map((at, index) => at - (moments[index] ?? at));
  return {
    totalMs: (moments.at(-1) ?? 0) - (moments[0] ?? 0),
    longestGapMs: Math.max(...gaps),
    refused,
    wrong: stage.vms.plugMistakes(count),
  };
}
