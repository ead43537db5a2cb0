// SPDX-License-Identifier: Apache-2.0
// Takes everything of a sandbox away, by what the journal has of it: whatever the pod, its definitions and its namespace
// are by now.
import { isPodFinished, type Pod } from "@patchbay/api";
import type { JournalRow, PluginCall } from "@patchbay/cni";
import { isAppError, messageOf } from "@patchbay/core";
import { parseKey } from "@patchbay/kube";
import { detach } from "../reconcilers/pod/attachment/detach.ts";
import { type PodFacts, isPodOf } from "../reconcilers/pod/observe.ts";
import { report } from "../reconcilers/pod/report.ts";
import { freeUnused } from "../reconcilers/upkeep/collect.ts";
import { listNetworks, type UsableNetwork } from "../reconcilers/upkeep/networks.ts";
import type { RuntimeDeps } from "./deps.ts";
import { rowsOf } from "./facts.ts";

/** What is known of a pod by its rows. */
function factsOfRow({ podUid: uid, podNamespace: namespace, podName: name }: JournalRow): PodFacts {
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

/**
 * DEL of each row, the last one first; one that fails keeps no other from it.
 * @throws what the first of those that failed threw
 */
export async function releaseRows(rows: readonly JournalRow[], deps: RuntimeDeps): Promise<void> {
  const failures: unknown[] = [];
  for (const row of rows.toReversed()) {
    if (row.state === "removed") continue;
    try {
      // Without the pod: its end is no news of each network.
      await detach(row, factsOfRow(row), deps);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** The pod, where somebody will still read its status. */
function readerOf(facts: PodFacts, deps: RuntimeDeps): Pod | undefined {
  const pod = deps.pods.find(parseKey(facts.key));
  if (!isPodOf(pod, facts.uid) || isPodFinished(pod)) return undefined;
  return pod.metadata.deletionTimestamp === undefined ? pod : undefined;
}

/**
 * Forgets what is gone, and says so where the pod has nothing else: the ADD of a newer sandbox has said all of it. The
 * runtime does not wait for the API server to be there: a pass says it then.
 */
export async function settle(row: JournalRow, deps: RuntimeDeps): Promise<void> {
  const facts = factsOfRow(row);
  const rows = await deps.journal.list(facts.uid);
  const gone = rows.filter(({ state }) => state === "removed");
  if (gone.length < rows.length) {
    for (const one of gone) await deps.journal.remove(one);
    return;
  }
  const pod = readerOf(facts, deps);
  const known: PodFacts = pod === undefined ? facts : { ...facts, pod };
  try {
    await report(known, { errors: new Map(), againMs: undefined }, deps);
  } catch (error) {
    deps.log.warn("status of a pod will be written later", {
      pod: facts.key,
      reason: messageOf(error),
    });
    deps.wake(facts.key);
  }
}

/** Releases one sandbox of a pod; nothing of it is known: success. */
export async function releaseSandbox(
  sandbox: { readonly uid: string; readonly containerId: string },
  deps: RuntimeDeps,
): Promise<void> {
  const rows = await rowsOf(sandbox, deps);
  const [first] = rows;
  if (first === undefined) return;
  try {
    await releaseRows(rows, deps);
  } finally {
    await settle(first, deps);
  }
}

/** Uids of the pods that may have the sandbox; a call names one, and calls of old may name none. */
function uidsOf({ pod }: PluginCall, { tracked }: RuntimeDeps): readonly string[] {
  const known = tracked.keys().flatMap((key) => tracked.uidsOf(key));
  return [...new Set([...(pod === undefined ? [] : [pod.uid]), ...known])];
}

/** Answers DEL. @throws what the plugins of the networks give cause to */
export async function removePod(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const { containerId, pod } = call;
  for (const uid of uidsOf(call, deps)) {
    // Whoever the call names may be in the midst of an ADD, of which no row tells yet.
    const isIts = uid === pod?.uid || (await rowsOf({ uid, containerId }, deps)).length > 0;
    if (!isIts) continue;
    await deps.podMutex.runExclusive(uid, () => releaseSandbox({ uid, containerId }, deps));
  }
}

/** Releases what is of sandboxes that the runtime does not name; what failed. */
async function releaseUnnamed(call: PluginCall, deps: RuntimeDeps): Promise<readonly unknown[]> {
  const valid = new Set(call.valid.map(({ containerId }) => containerId));
  const failures: unknown[] = [];
  for (const uid of uidsOf(call, deps)) {
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

/** What is not certain is freed another time. */
async function freeOf(network: UsableNetwork, deps: RuntimeDeps): Promise<void> {
  try {
    await freeUnused(network, deps);
  } catch (error) {
    if (!isAppError(error, "CNI_GC_HELD")) throw error;
    deps.log.debug("unused of network not freed now", {
      network: network.name,
      reason: error.message,
    });
  }
}

/**
 * Answers GC: releases what is of sandboxes that the runtime does not name, but not what is ready for another runtime of
 * this node, and then has the plugins of all networks free what they hold for attachments that are not there. One that
 * fails keeps no other from it.
 * @throws what the first of those that failed threw
 */
export async function collectGarbage(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const failures = [...(await releaseUnnamed(call, deps))];
  for (const network of await listNetworks(deps)) {
    await freeOf(network, deps).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
