// SPDX-License-Identifier: Apache-2.0
// Gives back what Multus attached and never took away: it removes what it attached when the pod was made, but
// not what its dynamic networks controller asked for later, and nothing at all while its daemon is down.
import { isPodFinished, PODS, type Pod } from "@patchbay/api";
import type { RememberedAttachment } from "@patchbay/cni";
import { messageOf } from "@patchbay/core";
import { printKey, after, createQueue, done, runReconciler, type Next } from "@patchbay/kube";
import type { ObjectKey, Change } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";

/** The pod that an attachment was made for. */
interface Owner extends ObjectKey {
  readonly uid: string;
}

/** As a kubelet's runtime tells every plugin; undefined for what is none of a kubelet's. Source: Kubernetes, CNI_ARGS. */
function ownerOf({ attachment: { args } }: RememberedAttachment): Owner | undefined {
  const told: ReadonlyMap<string, string> = new Map(args);
  const [uid, namespace, name] = ["UID", "NAMESPACE", "NAME"].map((key) =>
    told.get(`K8S_POD_${key}`),
  );
  if (uid === undefined || namespace === undefined || name === undefined) return undefined;
  return { uid, namespace, name };
}

function isAlive(pod: Pod | undefined, uid: string): boolean {
  return pod !== undefined && pod.metadata.uid === uid && !isPodFinished(pod);
}

/**
 * Whether nothing of the pod can use the attachment any more: it is deleted or has ended by the API server, which is asked,
 * and has no ready sandbox. The object of a pod that has ended may exist for days.
 */
async function isOver({ uid, ...key }: Owner, deps: Deps): Promise<boolean> {
  if (isAlive(deps.pods.find(key), uid)) return false;
  if (isAlive(await deps.store.find(PODS, key), uid)) return false;
  return (await deps.sandboxes.find(uid)) === undefined;
}

async function release(leftover: RememberedAttachment, owner: Owner, deps: Deps): Promise<void> {
  const { containerId, interfaceName, attachment } = leftover;
  const { config, args, capabilityArgs, result } = attachment;
  const request = { containerId, interfaceName, config, args, capabilityArgs };
  const what = { pod: printKey(owner), network: config.name };
  try {
    // Without a namespace: it went with the pod, and its path may be another one's by now.
    await deps.cni.del(request, result);
    await deps.multusCache.forget(leftover);
    deps.log.info("released what Multus left", { ...what, link: interfaceName });
  } catch (error) {
    const reason = messageOf(error);
    deps.log.warn("releasing what Multus left failed", { ...what, reason });
  }
}

/**
 * Runs DEL for what Multus remembers of pods that have ended or are deleted, and forgets it; `uid`: of that pod only. What fails stays,
 * for the next time.
 */
export async function sweepLeftovers(deps: Deps, uid?: string): Promise<void> {
  for (const entry of await deps.multusCache.list()) {
    const owner = ownerOf(entry);
    if (owner === undefined || (uid !== undefined && owner.uid !== uid)) continue;
    if (await isOver(owner, deps)) await release(entry, owner, deps);
  }
}

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
