// SPDX-License-Identifier: Apache-2.0
// Releases a sandbox by its journal rows alone, because the pod, the networks' definitions and the network namespace may no longer exist.
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
      podState: "ended",
    },
  };
}

/** Detaches the rows in reverse order. Continues after a failure. @throws the first error */
export async function releaseRows(rows: readonly JournalRow[], deps: RuntimeDeps): Promise<void> {
  const failures: unknown[] = [];
  for (const row of rows.toReversed()) {
    if (row.state === "removed") continue;
    try {
      // The facts omit the pod, so that no events about its networks are recorded.
      await detach(row, toFacts(row), deps);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

function findLivePod(facts: PodFacts, deps: RuntimeDeps): Pod | undefined {
  const pod = deps.pods.find(parseKey(facts.key));
  if (!isPodOf(pod, facts.uid) || isPodFinished(pod)) return undefined;
  return pod.metadata.deletionTimestamp === undefined ? pod : undefined;
}

/** Deletes the pod's `removed` journal rows. If it has no other rows, they are deleted only after the pod's status is written. */
export async function forgetRemoved(row: JournalRow, deps: RuntimeDeps): Promise<void> {
  const facts = toFacts(row);
  const rows = await deps.journal.list(facts.uid);
  const removed = rows.filter(({ state }) => state === "removed");
  if (removed.length < rows.length) {
    for (const removedRow of removed) await deps.journal.remove(removedRow);
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

/** Returns the uids of the call's pod and of all tracked pods, because a call of an old runtime may omit the pod. */
function listUids({ pod }: PluginCall, { trackedPods }: RuntimeDeps): readonly string[] {
  const trackedUids = trackedPods.keys().flatMap((key) => trackedPods.listUids(key));
  return [...new Set([...(pod === undefined ? [] : [pod.uid]), ...trackedUids])];
}

/** Answers DEL. @throws the errors of the networks' plugins */
export async function removePod(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const { containerId, pod } = call;
  for (const uid of listUids(call, deps)) {
    // An ADD of the call's pod may be in progress, and may not have written the sandbox's row yet.
    const ownsSandbox = uid === pod?.uid || (await listRows({ uid, containerId }, deps)).length > 0;
    if (!ownsSandbox) continue;
    await deps.podMutex.runExclusive(uid, () => releaseSandbox({ uid, containerId }, deps));
  }
}

/** Releases sandboxes that the runtime's GC call does not list, except each pod's ready sandbox. Returns the errors. */
async function releaseUnlisted(call: PluginCall, deps: RuntimeDeps): Promise<readonly unknown[]> {
  const valid = new Set(call.validAttachments.map(({ containerId }) => containerId));
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

/** Runs GC for the network. Postpones GC if the list of the network's valid attachments may be incomplete. */
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

/** Releases unlisted sandboxes that are not ready, then runs GC for each network. Continues after errors. @throws the first error */
export async function collectGarbage(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const failures = [...(await releaseUnlisted(call, deps))];
  for (const network of await listNetworks(deps)) {
    await freeIfSafe(network, deps).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
