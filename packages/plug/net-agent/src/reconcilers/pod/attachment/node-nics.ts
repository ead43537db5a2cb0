// SPDX-License-Identifier: Apache-2.0
// NICs of the node that an attachment takes. They are recorded before ADD and restored after DEL, because a plugin restores at most
// the name, and a deleted namespace returns hardware under any name, down and without addresses.
import type { JournalRow } from "@patchbay/cni";
import { AppError, isFromNicMover, isSameNodeNic, nodeNicNamesOf } from "@patchbay/core";
import type { AttachmentRequest, NodeNic, OpenNetns } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { tellNicNotRestored } from "../tell.ts";

/** Attempts until a person has to fix the NIC. Hardware returns from a deleted namespace with a delay. */
const TRIES_MAX = 5;

async function onHost<T>(deps: Deps, work: (host: OpenNetns) => Promise<T>): Promise<T> {
  const host = deps.openHostNetns();
  try {
    return await work(host);
  } finally {
    host.close();
  }
}

/** NICs that attachments of this node have recorded and not restored. */
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

/** Records the node's NICs that the request takes, as they are. If another attachment has not fully restored a NIC, its record is used. */
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

/** Moves a NIC of the node out of a pod without its plugin. */
export async function bringBackNic(netns: OpenNetns, name: string, deps: Deps): Promise<void> {
  await onHost(deps, (host) => deps.nodeNics.bringBack(netns, name, host));
}

/** Whether a plugin failed only because the NIC is back on the node already: ADD never ran, or DEL ran before. */
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

interface Lack {
  readonly words: string;
  /** Whether another attempt may succeed. */
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
  // The other attachment that has it now restores it.
  if ((await listNoted(deps, row)).some((other) => isSameNodeNic(other, nic))) return [];
  const isHardware = nic.kind === "";
  const how = isHardware ? "has not come back" : `is gone: the kernel removed it with the pod`;
  return [{ words: `${nic.name} ${how}`, mayPass: isHardware }];
}

/**
 * Restores the settings of the node's NICs, and reports finally what could not be restored. After a reboot the node has configured
 * them itself.
 * @throws AppError with PODNET_FAILED if another attempt may do more
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
