// SPDX-License-Identifier: Apache-2.0
// Gives back what Multus attached and never took away: it removes what it attached when the pod was made, but
// not what its dynamic networks controller asked for later, and nothing at all while its daemon is down.
import { PODS } from "@patchbay/api";
import type { RememberedAttachment } from "@patchbay/cni";
import { messageOf } from "@patchbay/core";
import { printKey } from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";

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

/** Whether nothing of the pod is left: neither at the API server, which is asked, nor in the container runtime. */
async function isGone({ uid, ...key }: Owner, deps: Deps): Promise<boolean> {
  if (deps.pods.find(key)?.metadata.uid === uid) return false;
  if ((await deps.store.find(PODS, key))?.metadata.uid === uid) return false;
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
 * Runs DEL for what Multus remembers of pods that are gone, and forgets it; `uid`: of that pod only. What fails stays,
 * for the next time.
 */
export async function sweepLeftovers(deps: Deps, uid?: string): Promise<void> {
  for (const entry of await deps.multusCache.list()) {
    const owner = ownerOf(entry);
    if (owner === undefined || (uid !== undefined && owner.uid !== uid)) continue;
    if (await isGone(owner, deps)) await release(entry, owner, deps);
  }
}
