// SPDX-License-Identifier: Apache-2.0
// Which sandbox does a pod have, and in which network namespace? As the container runtime tells it, by CRI alone.
import type {
  ContainerRuntime,
  Namespaces,
  Sandbox,
  Sandboxes,
  SandboxStatus,
  SandboxSummary,
} from "@patchbay/ports";

/** As a kubelet, and all that do its work, label sandboxes. Source: kubelet types, KubernetesPodUIDLabel. */
const UID_LABEL = "io.kubernetes.pod.uid";

/** What {@link createCriSandboxes} needs. */
export interface SandboxDeps {
  readonly runtime: Pick<ContainerRuntime, "listSandboxes" | "findSandbox">;
  readonly namespaces: Namespaces;
}

/**
 * Finds the ready sandbox of a pod, the last that was made. One in the node's network, or one whose namespace cannot be
 * opened, is none.
 */
export function createCriSandboxes({ runtime, namespaces }: SandboxDeps): Sandboxes {
  return {
    find: async (podUid) => {
      const listed = await runtime.listSandboxes({ labels: { [UID_LABEL]: podUid } });
      const last = lastReady(listed, podUid);
      const status = last === undefined ? undefined : await runtime.findSandbox(last.id);
      if (status === undefined || !isReadyFor(status, podUid)) return undefined;
      return toSandbox(status, namespaces);
    },
  };
}

/** A label is what somebody has written; the metadata is what the sandbox was made for. */
function isReadyFor({ state, metadata }: SandboxSummary, podUid: string): boolean {
  return state === "READY" && metadata.uid === podUid;
}

function lastReady(listed: readonly SandboxSummary[], podUid: string): SandboxSummary | undefined {
  return listed
    .filter((sandbox) => isReadyFor(sandbox, podUid))
    .toSorted((one, other) => other.metadata.attempt - one.metadata.attempt)[0];
}

/** The path that the runtime names may lie in a mount that is not seen from here; that of its process is seen everywhere. */
function pathsOf({ netnsPath, pid }: SandboxStatus): readonly string[] {
  if (netnsPath === undefined) return [];
  return pid === undefined ? [netnsPath] : [netnsPath, `/proc/${String(pid)}/ns/net`];
}

function toSandbox(status: SandboxStatus, namespaces: Namespaces): Sandbox | undefined {
  const { id, metadata } = status;
  for (const netnsPath of pathsOf(status)) {
    const netns = namespaces.open(netnsPath);
    if (netns === undefined) continue;
    const netnsInode = netns.inode;
    netns.close();
    const pod = { namespace: metadata.namespace, name: metadata.name };
    return { id, podUid: metadata.uid, pod, netnsPath, netnsInode };
  }
  return undefined;
}
