// SPDX-License-Identifier: Apache-2.0
// Releases a sandbox by its journal rows, independent of the current state of the pod, its definitions and its namespace.
import { isPodFinished, type Pod } from "@patchbay/api/kubernetes";
import type { JournalRow, PluginCall } from "@patchbay/cni";
import { isAppError, messageOf } from "@patchbay/base";
import { parseKey } from "@patchbay/kube";
import { detach } from "../reconcilers/pod/attachment/detach.ts";
import { type PodFacts, isPodOf } from "../reconcilers/pod/observe.ts";
import { report } from "../reconcilers/pod/report.ts";
import { freeUnused } from "../reconcilers/upkeep/collect.ts";
import { listNetworks, type UsableNetwork } from "../reconcilers/upkeep/networks.ts";
import type { RuntimeDeps } from "./deps.ts";
import { listRows } from "./facts.ts";

function toFacts({ podUid: uid, podNamespace: namespace, podName: name }: JournalRow): PodFacts {
  return {
    key: `${namespace}/${name}`,
    uid,
    attachments: {
      namespace,
      networks: { ok: true, elements: [] },
      isHostNetwork: false,
      owned: [],
      foreign: [],
      mode: "alone",
      pod: "over",
    },
  };
}

/** The last row first. A failure does not stop the others. @throws the first error */
export async function releaseRows(rows: readonly JournalRow[], deps: RuntimeDeps): Promise<void> {
  const failures: unknown[] = [];
  for (const row of rows.toReversed()) {
    if (row.state === "removed") continue;
    try {
      // Without the pod, so that its end causes no event for each network.
      await detach(row, toFacts(row), deps);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** The pod, if its status is still of interest. */
function findLivePod(facts: PodFacts, deps: RuntimeDeps): Pod | undefined {
  const pod = deps.pods.find(parseKey(facts.key));
  if (!isPodOf(pod, facts.uid) || isPodFinished(pod)) return undefined;
  return pod.metadata.deletionTimestamp === undefined ? pod : undefined;
}

/** Updates the pod's status if no row is left. The runtime must not wait for the API server, so a pass repeats a failed write. */
export async function forgetRemoved(row: JournalRow, deps: RuntimeDeps): Promise<void> {
  const facts = toFacts(row);
  const rows = await deps.journal.list(facts.uid);
  const removed = rows.filter(({ state }) => state === "removed");
  if (removed.length < rows.length) {
    for (const one of removed) await deps.journal.remove(one);
    return;
  }
  const pod = findLivePod(facts, deps);
  const currentFacts: PodFacts = pod === undefined ? facts : { ...facts, pod };
  try {
    await report(currentFacts, { errors: new Map(), retryInMs: undefined }, deps);
  } catch (error) {
    deps.log.warn("postponed writing a pod's status", {
      pod: facts.key,
      reason: messageOf(error),
    });
    deps.wake(facts.key);
  }
}

/** Releases one sandbox of a pod. Succeeds if nothing of it is known. */
export async function releaseSandbox(
  sandbox: { readonly uid: string; readonly containerId: string },
  deps: RuntimeDeps,
): Promise<void> {
  const rows = await listRows(sandbox, deps);
  const [first] = rows;
  if (first === undefined) return;
  try {
    await releaseRows(rows, deps);
  } finally {
    await forgetRemoved(first, deps);
  }
}

/** Uids of the pods that may have the sandbox. Old calls may name no pod. */
function listUids({ pod }: PluginCall, { tracked }: RuntimeDeps): readonly string[] {
  const known = tracked.keys().flatMap((key) => tracked.listUids(key));
  return [...new Set([...(pod === undefined ? [] : [pod.uid]), ...known])];
}

/** @throws the errors of the networks' plugins */
export async function removePod(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const { containerId, pod } = call;
  for (const uid of listUids(call, deps)) {
    // The named pod may be in the middle of an ADD that has no row yet.
    const ownsSandbox = uid === pod?.uid || (await listRows({ uid, containerId }, deps)).length > 0;
    if (!ownsSandbox) continue;
    await deps.podMutex.runExclusive(uid, () => releaseSandbox({ uid, containerId }, deps));
  }
}

/** Releases sandboxes that the runtime does not name. Returns the errors. */
async function releaseUnnamed(call: PluginCall, deps: RuntimeDeps): Promise<readonly unknown[]> {
  const valid = new Set(call.valid.map(({ containerId }) => containerId));
  const failures: unknown[] = [];
  for (const uid of listUids(call, deps)) {
    const rows = await deps.journal.list(uid);
    const stale = new Set(
      rows.map(({ request }) => request.containerId).filter((id) => !valid.has(id)),
    );
    for (const containerId of stale) {
      await deps.podMutex
        .runExclusive(uid, async () => {
          if ((await deps.sandboxes.find(uid))?.id === containerId) return;
          await releaseSandbox({ uid, containerId }, deps);
        })
        .catch((error: unknown) => failures.push(error));
    }
  }
  return failures;
}

/** GC that is not certain to be safe is left to another time. */
async function freeIfSafe(network: UsableNetwork, deps: RuntimeDeps): Promise<void> {
  try {
    await freeUnused(network, deps);
  } catch (error) {
    if (!isAppError(error, "CNI_GC_HELD")) throw error;
    deps.log.debug("postponed GC of a network", {
      network: network.name,
      reason: error.message,
    });
  }
}

/**
 * Answers GC: releases sandboxes that the runtime does not name, except those of another runtime that are ready, and then runs GC for all
 * networks. A failure does not stop the others.
 * @throws the first error
 */
export async function collectGarbage(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const failures = [...(await releaseUnnamed(call, deps))];
  for (const network of await listNetworks(deps)) {
    await freeIfSafe(network, deps).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
