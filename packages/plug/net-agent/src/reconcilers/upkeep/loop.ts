// SPDX-License-Identifier: Apache-2.0
// When is looked after networks and attachments that nobody changes? At the start, and each hour.
import { after, createQueue, runReconciler, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { createUpkeep } from "./index.ts";

/** The key of everything. */
const ALL = "*";
const HOUR_MS = 3_600_000;

/** Looks until the signal is aborted. */
export async function runUpkeepLoop(deps: Deps, signal: AbortSignal): Promise<void> {
  const { clock, log } = deps;
  const queue = createQueue({ clock });
  const upkeep = createUpkeep(deps);
  queue.add(ALL);
  const reconcile = async (): Promise<Next> => {
    await upkeep();
    return after(HOUR_MS);
  };
  await runReconciler({ name: "upkeep", queue, reconcile, log, clock }, signal);
}
