// SPDX-License-Identifier: Apache-2.0
// Shuts down guests by deleting all pods of the machine gracefully. Does not change the run strategies of VMs.
import { join } from "node:path";
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { createCache, keyOf, printKey, type KubeClient } from "@patchbay/kube";
import type { Cache, Files } from "@patchbay/core/interfaces";
import type { Clock, Logger } from "@patchbay/base";
import type { Paths } from "../data-dir/paths.ts";

/** Time added to the pods' grace period for the cleanup of links, leases and namespaces. */
const CLEANUP_TIMEOUT_MS = 30_000;
const SHUTDOWN_MAX_MS = 180_000;
const SWEEP_TIMEOUT_MS = 20_000;
const DEFAULT_GRACE_SECONDS = 30;
const NAMES_MAX = 5;

export interface GuestDeps {
  readonly client: KubeClient;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly paths: Paths;
  readonly report: (text: string) => void;
}

function computeShutdownMs(pods: readonly Pod[]): number {
  const seconds = pods.map(
    ({ spec }) => spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
  );
  return Math.min(Math.max(0, ...seconds) * 1000 + CLEANUP_TIMEOUT_MS, SHUTDOWN_MAX_MS);
}

function listSortedNames(pods: readonly Pod[]): readonly string[] {
  return pods.map((pod) => printKey(keyOf(pod))).sort();
}

function printNames(pods: readonly Pod[]): string {
  const names = listSortedNames(pods);
  const shownNames = names.slice(0, NAMES_MAX).join(", ");
  const hiddenCount = names.length - NAMES_MAX;
  return hiddenCount > 0 ? `${shownNames} and ${String(hiddenCount)} more` : shownNames;
}

/** Waits until all pods have ended, and reports the end of each. Returns false if pods remain after the timeout. */
async function waitUntilEmpty(
  pods: Cache<Pod>,
  { clock, report }: Pick<GuestDeps, "clock" | "report">,
  timeoutMs: number,
): Promise<boolean> {
  const decision = new AbortController();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  let previous = listSortedNames(pods.list());
  const update = (): void => {
    const remaining = listSortedNames(pods.list());
    for (const name of previous.filter((each) => !remaining.includes(each))) {
      report(`pod ${name} ended, ${String(remaining.length)} left`);
    }
    previous = remaining;
    if (remaining.length === 0) resolve(true);
  };
  const unsubscribe = pods.onChange(update);
  update();
  clock.sleep(timeoutMs, decision.signal).then(
    () => {
      resolve(false);
    },
    () => undefined,
  );
  const isEmpty = await promise;
  unsubscribe();
  decision.abort(new Error("decided"));
  return isEmpty;
}

async function deleteAll(deps: GuestDeps, pods: readonly Pod[], isForced: boolean): Promise<void> {
  await Promise.all(
    pods.map((pod) =>
      deps.client.store.delete(PODS, keyOf(pod), {
        ...(pod.metadata.uid === undefined ? {} : { uid: pod.metadata.uid }),
        ...(isForced ? { gracePeriodSeconds: 0 } : {}),
      }),
    ),
  );
}

/** Selects pods that are bound to a node. Other pods have no processes, and are not deleted. */
const SCHEDULED_ONLY = { fieldSelector: "spec.nodeName!=" };

export async function shutDownGuests(deps: GuestDeps): Promise<number> {
  const { client, clock, log, report } = deps;
  const stop = new AbortController();
  const pods = createCache(client.reflect(PODS, SCHEDULED_ONLY), { logger: log });
  pods.start(stop.signal);
  try {
    await Promise.race([pods.synced(), clock.sleep(CLEANUP_TIMEOUT_MS, stop.signal)]);
    const initial = pods.list();
    const waitMs = computeShutdownMs(initial);
    if (initial.length > 0) {
      const seconds = String(Math.round(waitMs / 1000));
      report(`waiting up to ${seconds} s for guests and pods to end: ${printNames(initial)}`);
    }
    await deleteAll(deps, initial, false);
    if (!(await waitUntilEmpty(pods, deps, waitMs))) {
      const remaining = pods.list();
      log.warn("pods did not end in time and are killed", { count: remaining.length });
      report(`killing pods that did not end in time: ${printNames(remaining)}`);
      await deleteAll(deps, remaining, true);
      await waitUntilEmpty(pods, deps, SWEEP_TIMEOUT_MS);
    }
    await waitForJournal(deps);
    return initial.length;
  } finally {
    stop.abort(new Error("guests are shut down"));
  }
}

/** Waits until net-agent has released all attachments, which means that its journal is empty. */
async function waitForJournal({ files, clock, log, paths }: GuestDeps): Promise<void> {
  const journal = join(paths.netAgent, "journal");
  const decision = new AbortController();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const update = (): void => {
    files.list(journal).then(
      (rows) => {
        if (rows.length === 0) resolve(true);
      },
      () => {
        resolve(false);
      },
    );
  };
  files.watchDirectory(journal, update, decision.signal);
  update();
  clock.sleep(SWEEP_TIMEOUT_MS, decision.signal).then(
    () => {
      resolve(false);
    },
    () => undefined,
  );
  if (!(await promise)) log.warn("the journal still contains attachments", { path: journal });
  decision.abort(new Error("decided"));
}
