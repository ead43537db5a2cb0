// SPDX-License-Identifier: Apache-2.0
// Looks for what Multus left behind at the start, each hour, and when a pod has ended or was deleted.
import { isPodFinished, type Pod } from "@patchbay/api";
import type { Change } from "@patchbay/core/ports";
import { after, createQueue, done, runReconciler, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { sweepLeftovers } from "./sweep.ts";

/** The key of everything; others are uids of pods. */
const ALL = "*";
const HOUR_MS = 3_600_000;
/** After a pod has ended Multus may still be about to take away what it remembers, milliseconds. */
const SETTLE_MS = 10_000;

/** The uid of a pod that ends by the change. */
export function endedPodOf(change: Change<Pod>): string | undefined {
  if (change.kind === "deleted") return change.previous.metadata.uid;
  const before = change.kind === "updated" ? change.previous : undefined;
  const hasEnded =
    isPodFinished(change.current) && (before === undefined || !isPodFinished(before));
  return hasEnded ? change.current.metadata.uid : undefined;
}

/** Looks until the signal is aborted. */
export async function runLeftoverLoop(deps: Deps, signal: AbortSignal): Promise<void> {
  const { clock, log, pods } = deps;
  const queue = createQueue({ clock });
  pods.onChange((change) => {
    const uid = endedPodOf(change);
    if (uid !== undefined) queue.addAfter(uid, SETTLE_MS);
  });
  queue.add(ALL);
  const reconcile = async (key: string): Promise<Next> => {
    await sweepLeftovers(deps, key === ALL ? undefined : key);
    return key === ALL ? after(HOUR_MS) : done();
  };
  await runReconciler({ name: "leftovers", queue, reconcile, log, clock }, signal);
}
