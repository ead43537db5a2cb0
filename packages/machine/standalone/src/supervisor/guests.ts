// SPDX-License-Identifier: Apache-2.0
// How guests are shut down without touching what their owners want: all pods of the machine go, gracefully.
import { join } from "node:path";
import { PODS, type Pod } from "@patchbay/api";
import { createCache, keyOf, printKey, type KubeClient } from "@patchbay/kube";
import type { Cache, Clock, Files, Logger } from "@patchbay/core/ports";
import type { Paths } from "../data-dir/paths.ts";

/** Beyond a pod's own grace: for its links, leases and namespaces, milliseconds. */
const CLEANING_MS = 30_000;
/** No pod may hold up the machine longer than this, milliseconds. */
const WAIT_MAX_MS = 180_000;
/** For what a forced deletion leaves to be swept, milliseconds. */
const SWEEP_MS = 20_000;
const DEFAULT_GRACE_SECONDS = 30;
/** So many pods are named in one line. */
const NAMES_MAX = 5;

/** Ways to the machine's API server and to the directories of its pods. */
export interface GuestDeps {
  readonly client: KubeClient;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly paths: Paths;
  /** Reports each step to the person who waits. */
  readonly report: (text: string) => void;
}

function graceMs(pods: readonly Pod[]): number {
  const seconds = pods.map(
    ({ spec }) => spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS,
  );
  return Math.min(Math.max(0, ...seconds) * 1000 + CLEANING_MS, WAIT_MAX_MS);
}

function namesOf(pods: readonly Pod[]): readonly string[] {
  return pods.map((pod) => printKey(keyOf(pod))).sort();
}

/** The names of a few pods, and the number of the others. */
function printNames(pods: readonly Pod[]): string {
  const names = namesOf(pods);
  const shown = names.slice(0, NAMES_MAX).join(", ");
  const more = names.length - NAMES_MAX;
  return more > 0 ? `${shown} and ${String(more)} more` : shown;
}

/** Resolves with true when the cache is empty, with false at the deadline. */
async function waitUntilEmpty(
  pods: Cache<Pod>,
  { clock, report }: Pick<GuestDeps, "clock" | "report">,
  timeoutMs: number,
): Promise<boolean> {
  const done = new AbortController();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  let before = namesOf(pods.list());
  const look = (): void => {
    const left = namesOf(pods.list());
    for (const name of before.filter((each) => !left.includes(each))) {
      report(`pod ${name} ended, ${String(left.length)} left`);
    }
    before = left;
    if (left.length === 0) resolve(true);
  };
  const forget = pods.onChange(look);
  look();
  clock.sleep(timeoutMs, done.signal).then(
    () => {
      resolve(false);
    },
    () => undefined,
  );
  const isEmpty = await promise;
  forget();
  done.abort(new Error("decided"));
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

/** What is on a node has processes there; what is not stays as its owner wants it. */
const ON_A_NODE = { fieldSelector: "spec.nodeName!=" };

/** Deletes the pods that run here, launchers and others, and waits until they are gone; answers how many there were. */
export async function shutDownGuests(deps: GuestDeps): Promise<number> {
  const { client, clock, log, report } = deps;
  const stop = new AbortController();
  const pods = createCache(client.reflect(PODS, ON_A_NODE), { logger: log });
  pods.start(stop.signal);
  try {
    await Promise.race([pods.synced(), clock.sleep(CLEANING_MS, stop.signal)]);
    const first = pods.list();
    const waitMs = graceMs(first);
    if (first.length > 0) {
      const seconds = String(Math.round(waitMs / 1000));
      report(`waiting up to ${seconds} s for guests and pods to end: ${printNames(first)}`);
    }
    await deleteAll(deps, first, false);
    if (!(await waitUntilEmpty(pods, deps, waitMs))) {
      const left = pods.list();
      log.warn("pods did not end and are killed", { count: left.length });
      report(`killing pods that did not end in time: ${printNames(left)}`);
      await deleteAll(deps, left, true);
      await waitUntilEmpty(pods, deps, SWEEP_MS);
    }
    await waitForJournal(deps);
    return first.length;
  } finally {
    stop.abort(new Error("guests are down"));
  }
}

/** The node's network agent has let go of everything when its journal is empty. */
async function waitForJournal({ files, clock, log, paths }: GuestDeps): Promise<void> {
  const journal = join(paths.netAgent, "journal");
  const done = new AbortController();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const look = (): void => {
    files.list(journal).then(
      (rows) => {
        if (rows.length === 0) resolve(true);
      },
      () => {
        resolve(false);
      },
    );
  };
  files.watchDirectory(journal, look, done.signal);
  look();
  clock.sleep(SWEEP_MS, done.signal).then(
    () => {
      resolve(false);
    },
    () => undefined,
  );
  if (!(await promise)) log.warn("attachments are left in the journal", { path: journal });
  done.abort(new Error("decided"));
}
