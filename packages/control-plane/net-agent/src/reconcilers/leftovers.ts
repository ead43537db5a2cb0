// SPDX-License-Identifier: Apache-2.0
// Releases attachments of ended pods that Multus has not released, for example because its daemon was down.
import { PODS } from "@patchbay/api";
import { isPodFinished, type Pod } from "@patchbay/api/kubernetes";
import type { RememberedAttachment } from "@patchbay/cni";
import { messageOf } from "@patchbay/base";
import { printKey, after, createQueue, done, runReconciler, type Next } from "@patchbay/kube";
import type { ObjectKey, Change } from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";

interface Owner extends ObjectKey {
  readonly uid: string;
}

/** Returns the pod that the plugin arguments name, or undefined if they name no pod. Source: Kubernetes, CNI_ARGS. */
function parseOwner({ attachment: { args } }: RememberedAttachment): Owner | undefined {
  const argsByName: ReadonlyMap<string, string> = new Map(args);
  const [uid, namespace, name] = ["UID", "NAMESPACE", "NAME"].map((key) =>
    argsByName.get(`K8S_POD_${key}`),
  );
  if (uid === undefined || namespace === undefined || name === undefined) return undefined;
  return { uid, namespace, name };
}

function isAlive(pod: Pod | undefined, uid: string): boolean {
  return pod !== undefined && pod.metadata.uid === uid && !isPodFinished(pod);
}

/** Returns whether the pod is deleted or finished, and has no ready sandbox. */
async function hasPodEnded({ uid, ...key }: Owner, deps: Deps): Promise<boolean> {
  if (isAlive(deps.pods.find(key), uid)) return false;
  if (isAlive(await deps.store.find(PODS, key), uid)) return false;
  return (await deps.sandboxes.find(uid)) === undefined;
}

async function release(leftover: RememberedAttachment, owner: Owner, deps: Deps): Promise<void> {
  const { containerId, interfaceName, attachment } = leftover;
  const { config, args, capabilityArgs, result } = attachment;
  const request = { containerId, interfaceName, config, args, capabilityArgs };
  const fields = { pod: printKey(owner), network: config.name };
  try {
    // The request omits the network namespace, because the path may meanwhile belong to another pod.
    await deps.cni.del(request, result);
    await deps.multusCache.forget(leftover);
    deps.log.info("released an attachment that Multus left behind", {
      ...fields,
      link: interfaceName,
    });
  } catch (error) {
    const reason = messageOf(error);
    deps.log.warn("failed to release an attachment that Multus left behind", { ...fields, reason });
  }
}

/** Releases leftover attachments of ended pods. `uid` limits the sweep to one pod. The next sweep retries failed releases. */
export async function sweepLeftovers(deps: Deps, uid?: string): Promise<void> {
  for (const entry of await deps.multusCache.list()) {
    const owner = parseOwner(entry);
    if (owner === undefined || (uid !== undefined && owner.uid !== uid)) continue;
    if (await hasPodEnded(owner, deps)) await release(entry, owner, deps);
  }
}

/** Queue key for all pods; other keys are uids of pods. */
const ALL_PODS = "*";
const SWEEP_INTERVAL_MS = 3_600_000;
/** Delay between a pod's end and the sweep, in milliseconds, because Multus may still be removing the pod's attachments. */
const SETTLE_MS = 10_000;

export function findEndedPod(change: Change<Pod>): string | undefined {
  if (change.kind === "deleted") return change.previous.metadata.uid;
  const previous = change.kind === "updated" ? change.previous : undefined;
  const hasEnded =
    isPodFinished(change.current) && (previous === undefined || !isPodFinished(previous));
  return hasEnded ? change.current.metadata.uid : undefined;
}

export async function runLeftoverLoop(deps: Deps, signal: AbortSignal): Promise<void> {
  const { clock, log, pods } = deps;
  const queue = createQueue({ clock });
  pods.onChange((change) => {
    const uid = findEndedPod(change);
    if (uid !== undefined) queue.addAfter(uid, SETTLE_MS);
  });
  queue.add(ALL_PODS);
  const reconcile = async (key: string): Promise<Next> => {
    await sweepLeftovers(deps, key === ALL_PODS ? undefined : key);
    return key === ALL_PODS ? after(SWEEP_INTERVAL_MS) : done();
  };
  await runReconciler({ name: "leftovers", queue, reconcile, log, clock }, signal);
}
