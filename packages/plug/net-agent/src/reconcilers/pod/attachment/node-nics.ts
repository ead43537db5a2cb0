// SPDX-License-Identifier: Apache-2.0
// NICs of the node that an attachment takes: noted before ADD, and after DEL given back what they had. A plugin brings back
// the name at most; a namespace that goes gives hardware back under any name, down and without addresses.
import type { JournalRow } from "@patchbay/cni";
import { AppError, isFromNicMover, isSameNodeNic, nodeNicNamesOf } from "@patchbay/core";
import type { AttachmentRequest, NodeNic, OpenNetns } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { tellNicNotRestored } from "../tell.ts";

/** After so many tries it is left to a person. Hardware comes from a namespace that has gone a moment later. */
const TRIES_MAX = 5;

async function onHost<T>(deps: Deps, work: (host: OpenNetns) => Promise<T>): Promise<T> {
  const host = deps.openHostNetns();
  try {
    return await work(host);
  } finally {
    host.close();
  }
}

/** What attachments of this node have noted, and not given back. */
async function listNoted(
  { journal, tracked, bootId }: Deps,
  except?: JournalRow,
): Promise<readonly NodeNic[]> {
  const noted: NodeNic[] = [];
  for (const uid of tracked.keys().flatMap((key) => tracked.uidsOf(key))) {
    for (const row of await journal.list(uid)) {
      const isOther = row.podUid !== except?.podUid || row.sequence !== except.sequence;
      if (isOther && row.state !== "removed" && row.bootId === bootId) {
        noted.push(...(row.nodeNics ?? []));
      }
    }
  }
  return noted;
}

/** The NICs of the node that the request takes, as they are, or as they were where another has not given them back in full. */
export async function noteNodeNics(
  request: AttachmentRequest,
  deps: Deps,
): Promise<Pick<JournalRow, "nodeNics">> {
  const names = nodeNicNamesOf(request);
  if (names.length === 0) return {};
  const noted = await listNoted(deps);
  return onHost(deps, async (host) => {
    const nodeNics: NodeNic[] = [];
    for (const name of names) {
      const nic = await deps.nodeNics.find(host, name);
      if (nic !== undefined) {
        nodeNics.push(noted.find((before) => isSameNodeNic(before, nic)) ?? nic);
      }
    }
    return nodeNics.length === 0 ? {} : { nodeNics };
  });
}

/** Moves a NIC of the node out of a pod, past its plugin. */
export async function bringBackNic(netns: OpenNetns, name: string, deps: Deps): Promise<void> {
  await onHost(deps, (host) => deps.nodeNics.bringBack(netns, name, host));
}

/** Whether a plugin has failed only because the NIC is on the node already: an ADD that was never run, or a DEL that was. */
export async function isBackAlready(
  { nodeNics = [], bootId }: JournalRow,
  error: unknown,
  deps: Deps,
): Promise<boolean> {
  if (!isFromNicMover(error) || nodeNics.length === 0 || bootId !== deps.bootId) return false;
  return onHost(deps, async (host) => {
    for (const nic of nodeNics) {
      if ((await deps.nodeNics.restore(host, nic)).kind === "absent") return false;
    }
    return true;
  });
}

/** What one NIC lacks, in words. */
interface Lack {
  readonly words: string;
  /** Whether it may be otherwise at another try. */
  readonly mayPass: boolean;
}

async function restoreOne(
  nic: NodeNic,
  { host, row }: { readonly host: OpenNetns; readonly row: JournalRow },
  deps: Deps,
): Promise<readonly Lack[]> {
  const restored = await deps.nodeNics.restore(host, nic);
  if (restored.kind === "there") {
    const { lacks } = restored;
    if (lacks.length === 0) return [];
    return [{ words: `${nic.name} lacks ${lacks.join(", ")}`, mayPass: true }];
  }
  // Whoever has it by now gives it back.
  if ((await listNoted(deps, row)).some((other) => isSameNodeNic(other, nic))) return [];
  const isHardware = nic.kind === "";
  const how = isHardware ? "has not come back" : `is gone: the kernel removed it with the pod`;
  return [{ words: `${nic.name} ${how}`, mayPass: isHardware }];
}

/**
 * Gives the NICs of the node back what they had; what cannot be given is told in the end. A node that was started anew has
 * configured them itself.
 * @throws AppError with PODNET_FAILED where another try may do more
 */
export async function restoreNodeNics(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  const { nodeNics = [], bootId, failedRemovals = 0 } = row;
  if (nodeNics.length === 0 || bootId !== deps.bootId) return;
  const lacks = await onHost(deps, async (host) => {
    const found: Lack[] = [];
    for (const nic of nodeNics) found.push(...(await restoreOne(nic, { host, row }, deps)));
    return found;
  });
  if (lacks.length === 0) {
    const nics = nodeNics.map(({ name }) => name).join(", ");
    deps.log.info("node's NIC restored", { pod: facts.key, nics });
    return;
  }
  const words = lacks.map((lack) => lack.words).join("; ");
  if (lacks.some(({ mayPass }) => mayPass) && failedRemovals + 1 < TRIES_MAX) {
    await deps.journal.write({ ...row, failedRemovals: failedRemovals + 1 });
    throw new AppError("PODNET_FAILED", {
      message: `a NIC of the node is not as it was: ${words}`,
    });
  }
  tellNicNotRestored(row, { facts, lacks: words }, deps);
}
