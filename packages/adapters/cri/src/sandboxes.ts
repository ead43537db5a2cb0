// SPDX-License-Identifier: Apache-2.0
// Which sandbox does a pod have, and in which network namespace? As the container runtime tells it, by CRI alone.
import type {
  ContainerRuntime,
  Namespaces,
  Sandbox,
  Sandboxes,
  SandboxStatus,
  SandboxSummary,
} from "@patchbay/core/ports";

/** As a kubelet, and all that do its work, label sandboxes. Source: kubelet types, KubernetesPodUIDLabel. */
const UID_LABEL = "io.kubernetes.pod.uid";

/** What {@link createCriSandboxes} needs. */
export interface SandboxDeps {
  readonly runtime: Pick<ContainerRuntime, "listSandboxes" | "findSandbox">;
  readonly namespaces: Namespaces;
}

/** Most pods whose sandbox is remembered; far more than a node runs. Source: kubelet, `--max-pods`, 110. */
const REMEMBERED_MAX = 1000;

/**
 * Finds the ready sandbox of a pod, the last that was made. One in the node's network, or one whose namespace cannot be
 * opened, is none. One that was found before is not looked for again while it is ready.
 */
export function createCriSandboxes({ runtime, namespaces }: SandboxDeps): Sandboxes {
  const remembered = new Map<string, string>();
  const askFor = async (id: string, podUid: string): Promise<SandboxStatus | undefined> => {
    const status = await runtime.findSandbox(id);
    return status !== undefined && isReadyFor(status, podUid) ? status : undefined;
  };
  const lookFor = async (podUid: string): Promise<SandboxStatus | undefined> => {
    const listed = await runtime.listSandboxes({ labels: { [UID_LABEL]: podUid } });
    const last = lastReady(listed, podUid);
    return last === undefined ? undefined : askFor(last.id, podUid);
  };
  return {
    find: async (podUid) => {
      const id = remembered.get(podUid);
      const known = id === undefined ? undefined : await askFor(id, podUid);
      const status = known ?? (await lookFor(podUid));
      remembered.delete(podUid);
      if (status === undefined) return undefined;
      remembered.set(podUid, status.id);
      const [oldest] = remembered.keys();
      if (remembered.size > REMEMBERED_MAX && oldest !== undefined) remembered.delete(oldest);
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
