// SPDX-License-Identifier: Apache-2.0
// Releases attachments that Multus did not release when a pod ended or lost its sandbox, for example because Multus' daemon was down.
import { PODS } from "@patchbay/api";
import { isPodFinished, type Pod } from "@patchbay/api/kubernetes";
import type { RememberedAttachment } from "@patchbay/cni";
import { isEqual, messageOf } from "@patchbay/base";
import { printKey, after, createQueue, done, runReconciler, type Next } from "@patchbay/kube";
import type { ObjectKey, Change } from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";

interface Owner extends ObjectKey {
  readonly uid: string;
}

/** Returns the pod that the CNI arguments identify, or undefined if they identify none. Source: Kubernetes, CNI_ARGS. */
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

/**
 * Returns whether the attachment's sandbox has ended: it is not ready and the pod has another sandbox, or the pod itself has ended.
 * If the runtime lists no sandbox of a living pod, returns false, because the runtime may still be creating the sandbox.
 */
async function hasSandboxEnded(
  containerId: string,
  { uid, ...key }: Owner,
  deps: Deps,
): Promise<boolean> {
  const sandbox = await deps.sandboxes.find(uid);
  if (sandbox !== undefined) {
    return sandbox.id !== containerId && !(await deps.sandboxes.isReady(containerId));
  }
  if (isAlive(deps.pods.find(key), uid)) return false;
  return !isAlive(await deps.store.find(PODS, key), uid);
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

/** Releases leftover attachments of ended sandboxes. `uid` limits the sweep to one pod. The next sweep retries failed releases. */
export async function sweepLeftovers(deps: Deps, uid?: string): Promise<void> {
  for (const entry of await deps.multusCache.list()) {
    const owner = parseOwner(entry);
    if (owner === undefined || (uid !== undefined && owner.uid !== uid)) continue;
    if (await hasSandboxEnded(entry.containerId, owner, deps)) await release(entry, owner, deps);
  }
}

/** Queue key for all pods; other keys are uids of pods. */
const ALL_PODS = "*";
const SWEEP_INTERVAL_MS = 3_600_000;
/** Delay in milliseconds from the end of a pod or sandbox to the sweep. During this delay, Multus may still remove attachments itself. */
const SETTLE_MS = 10_000;

/** Returns the pod's addresses on the pod network, which change when the runtime replaces the sandbox. */
function readAddresses({ status }: Pod): unknown {
  return status?.podIPs ?? status?.podIP;
}

function hasChangedSandbox(previous: Pod, current: Pod): boolean {
  const addresses = readAddresses(current);
  return addresses !== undefined && !isEqual(addresses, readAddresses(previous));
}

/** Returns the pod's uid if the pod has ended or the runtime has replaced its sandbox; otherwise undefined. */
export function findReleasedPod(change: Change<Pod>): string | undefined {
  if (change.kind === "deleted") return change.previous.metadata.uid;
  const { current } = change;
  const { uid } = current.metadata;
  if (change.kind === "added") return isPodFinished(current) ? uid : undefined;
  const hasEnded = isPodFinished(current) && !isPodFinished(change.previous);
  return hasEnded || hasChangedSandbox(change.previous, current) ? uid : undefined;
}

export async function runLeftoverLoop(deps: Deps, signal: AbortSignal): Promise<void> {
  const { clock, log, pods } = deps;
  const queue = createQueue({ clock });
  pods.onChange((change) => {
    const uid = findReleasedPod(change);
    if (uid !== undefined) queue.addAfter(uid, SETTLE_MS);
  });
  queue.add(ALL_PODS);
  const reconcile = async (key: string): Promise<Next> => {
    await sweepLeftovers(deps, key === ALL_PODS ? undefined : key);
    return key === ALL_PODS ? after(SWEEP_INTERVAL_MS) : done();
  };
  await runReconciler({ name: "leftovers", queue, reconcile, log, clock }, signal);
}
