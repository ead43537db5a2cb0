// SPDX-License-Identifier: Apache-2.0
// Two replicas of each service, and what plugs see of it when the leader and one virt-api go in the middle.
import { eventually } from "@patchbay/support";
import { load } from "../apiserver/load.ts";
import type { Service } from "./service.ts";
import type { Stage } from "./stage.ts";

/** Requests that are under way at once. */
export const PARALLEL = 4;

/** Within which one leads, also with many VMs on a busy machine, milliseconds. */
const LEADER_MS = 120_000;

/** What became of many plugs. */
export interface Failover {
  /** From the first request to the last NIC, milliseconds. */
  readonly totalMs: number;
  /** The longest time in which no NIC was there that had not been there before, milliseconds. */
  readonly longestGapMs: number;
  /** Requests that were answered by an error, and sent again. */
  readonly refused: number;
  /** VMs whose specification, status or pod names the NIC more or less often than once. */
  readonly wrong: readonly string[];
}

/** The virt-controller that leads, as soon as one does. */
export function leaderOf(stage: Stage): Promise<Service> {
  return eventually(() => stage.leader(), { withinMs: LEADER_MS });
}

/** Asks for a NIC until it is promised; the number of refusals. */
async function askThrough(stage: Stage, index: number): Promise<number> {
  for (let refused = 0; ; refused += 1) {
    try {
      await stage.vms.ask(index);
      return refused;
    } catch (error) {
      // What broke off may have been done.
      if (stage.vms.isAskedFor(index)) return refused + 1;
      if (refused > 100) throw error;
    }
  }
}

/** Plugs a NIC into each of so many VMs; a third of the way the leader is killed, after two thirds one virt-api goes. */
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
