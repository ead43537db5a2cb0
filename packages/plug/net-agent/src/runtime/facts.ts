// SPDX-License-Identifier: Apache-2.0
// Of which pod is a call, and in which namespace? The runtime says it, and it is looked at.
import { names, parseNetworks, PODS, type Pod } from "@patchbay/api";
import { CNI_CODES, type CalledPod, type JournalRow, type PluginCall } from "@patchbay/cni";
import { AppError } from "@patchbay/core";
import type { Sandbox } from "@patchbay/core/ports";
import { toOwned } from "../reconcilers/pod/attachment/owned-row.ts";
import { findByUid, type PodFacts, isPodOf } from "../reconcilers/pod/observe.ts";
import type { RuntimeDeps } from "./deps.ts";

function refuse(reason: string): never {
  throw new AppError("CNI_CALL_INVALID", { reason, cniCode: CNI_CODES.badEnvironment });
}

/** The runtime's path may lie in a mount that is not seen from here. */
function pathsOf(path: string, { hostProcess }: RuntimeDeps): readonly string[] {
  return hostProcess === undefined ? [path] : [path, `/proc/${String(hostProcess)}/root${path}`];
}

function findNamespace(
  path: string,
  deps: RuntimeDeps,
): Pick<Sandbox, "netnsPath" | "netnsInode"> | undefined {
  for (const netnsPath of pathsOf(path, deps)) {
    const netns = deps.namespaces.open(netnsPath);
    netns?.close();
    if (netns !== undefined) return { netnsPath, netnsInode: netns.inode };
  }
  return undefined;
}

/** The pod that a call says it is for; `isLive`: as the API server has it at this moment. */
async function podOf(
  { namespace, name, uid }: CalledPod,
  { deps, isLive }: { readonly deps: RuntimeDeps; readonly isLive: boolean },
): Promise<Pod> {
  const key = `${namespace}/${name}`;
  const pod = isLive
    ? await deps.store.find(PODS, { namespace, name })
    : await findByUid(key, uid, deps);
  if (isPodOf(pod, uid) && pod.spec.nodeName === deps.nodeName) return pod;
  throw new AppError("CNI_POD_UNKNOWN", { pod: key, uid });
}

/** The rows of one sandbox, in the order in which they were begun. */
export async function rowsOf(
  { uid, containerId }: { readonly uid: string; readonly containerId: string },
  deps: RuntimeDeps,
): Promise<readonly JournalRow[]> {
  const rows = await deps.journal.list(uid);
  return rows.filter(({ request }) => request.containerId === containerId);
}

/**
 * What a pass of the loop would find, for a sandbox that the runtime is just making and tells nobody else of; `live`: by
 * what the pod's annotation says at this moment.
 * @throws AppError with CNI_CALL_INVALID, CNI_POD_UNKNOWN, of which the runtime asks again
 */
export async function factsOf(
  call: PluginCall,
  deps: RuntimeDeps,
  how?: "live",
): Promise<PodFacts> {
  const { containerId, pod: called, netnsPath = "" } = call;
  if (called === undefined) return refuse("it is of no pod");
  const { namespace, name, uid } = called;
  const key = `${namespace}/${name}`;
  const pod = await podOf(called, { deps, isLive: how === "live" });
  const place = findNamespace(netnsPath, deps);
  if (place === undefined) return refuse(`CNI_NETNS ${netnsPath} is not a network namespace`);
  const sandbox = { id: containerId, podUid: uid, pod: { namespace, name }, ...place };
  const rows = await rowsOf({ uid, containerId }, deps);
  const asked = rows.filter(({ isDefault }) => isDefault !== true);
  return {
    key,
    uid,
    pod,
    sandbox,
    isNewSandbox: true,
    attachments: {
      namespace,
      networks: parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]),
      isHostNetwork: pod.spec.hostNetwork === true,
      owned: asked.map((row) => toOwned(row, { sandbox, bootId: deps.bootId })),
      foreign: [],
      // Whoever else attaches networks does so later.
      mode: "alone",
      pod: "alive",
    },
  };
}
