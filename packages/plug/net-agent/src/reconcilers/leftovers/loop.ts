// SPDX-License-Identifier: Apache-2.0
// When is looked for what Multus left behind? At the start, each hour, and when a pod has gone.
import { after, createQueue, done, runReconciler, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { sweepLeftovers } from "./sweep.ts";

/** The key of everything; others are uids of pods. */
const ALL = "*";
const HOUR_MS = 3_600_000;
/** After a pod has gone Multus may still be about to take away what it remembers, milliseconds. */
const SETTLE_MS = 10_000;

/** Looks until the signal is aborted. */
export async function runLeftoverLoop(deps: Deps, signal: AbortSignal): Promise<void> {
  const { clock, log, pods } = deps;
  const queue = createQueue({ clock });
  pods.onChange((change) => {
    const { uid } = change.kind === "deleted" ? change.previous.metadata : {};
    if (uid !== undefined) queue.addAfter(uid, SETTLE_MS);
  });
  queue.add(ALL);
  const reconcile = async (key: string): Promise<Next> => {
    await sweepLeftovers(deps, key === ALL ? undefined : key);
    return key === ALL ? after(HOUR_MS) : done();
  };
  await runReconciler({ name: "leftovers", queue, reconcile, log, clock }, signal);
}
