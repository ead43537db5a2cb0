// SPDX-License-Identifier: Apache-2.0
// Finds and verifies the pod and sandbox that a call's arguments name.
import { names, PODS } from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { CNI_CODES, type CalledPod, type JournalRow, type PluginCall } from "@patchbay/cni";
import { AppError } from "@patchbay/base";
import type { Sandbox } from "@patchbay/core/interfaces";
import { toOwned } from "../reconcilers/pod/attachment/owned-row.ts";
import { findByUid, type PodFacts, isPodOf } from "../reconcilers/pod/observe.ts";
import type { RuntimeDeps } from "./deps.ts";

function reject(reason: string): never {
  throw new AppError("CNI_CALL_INVALID", { reason, cniCode: CNI_CODES.badEnvironment });
}

/** Returns the path and, if `hostProcess` is set, the path below the host's root, because the namespace may be mounted only on the host. */
function listPaths(path: string, { hostProcess }: RuntimeDeps): readonly string[] {
  return hostProcess === undefined ? [path] : [path, `/proc/${String(hostProcess)}/root${path}`];
}

function findNamespace(
  path: string,
  deps: RuntimeDeps,
): Pick<Sandbox, "netnsPath" | "netnsInode"> | undefined {
  for (const netnsPath of listPaths(path, deps)) {
    const netns = deps.namespaces.open(netnsPath);
    netns?.close();
    if (netns !== undefined) return { netnsPath, netnsInode: netns.inode };
  }
  return undefined;
}

/** Finds the pod of the call. Bypasses the cache if `isLive` is set. */
async function findPod(
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

/** Returns the rows of one sandbox, oldest first. */
export async function listRows(
  { uid, containerId }: { readonly uid: string; readonly containerId: string },
  deps: RuntimeDeps,
): Promise<readonly JournalRow[]> {
  const rows = await deps.journal.list(uid);
  return rows.filter(({ request }) => request.containerId === containerId);
}

/** Reads the facts about the call's pod. `live` bypasses the cache. @throws AppError with CNI_CALL_INVALID, CNI_POD_UNKNOWN */
export async function readFacts(
  call: PluginCall,
  deps: RuntimeDeps,
  source?: "live",
): Promise<PodFacts> {
  const { containerId, pod: calledPod, netnsPath = "" } = call;
  if (calledPod === undefined) return reject("CNI_ARGS name no pod");
  const { namespace, name, uid } = calledPod;
  const key = `${namespace}/${name}`;
  const pod = await findPod(calledPod, { deps, isLive: source === "live" });
  const netns = findNamespace(netnsPath, deps);
  if (netns === undefined) return reject(`CNI_NETNS ${netnsPath} is not a network namespace`);
  const sandbox = { id: containerId, podUid: uid, pod: { namespace, name }, ...netns };
  const rows = await listRows({ uid, containerId }, deps);
  const secondary = rows.filter(({ isDefault }) => isDefault !== true);
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
      owned: secondary.map((row) => toOwned(row, { sandbox, bootId: deps.bootId })),
      foreign: [],
      // Mode `alone` applies, because no other component attaches networks before this call ends.
      mode: "alone",
      podState: "alive",
    },
  };
}
