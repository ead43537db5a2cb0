// SPDX-License-Identifier: Apache-2.0
// Restores NICs of the node that plugins moved into pods. NICs of a deleted network namespace return to the host without their settings.
import type { JournalRow } from "@patchbay/cni";
import { AppError } from "@patchbay/base";
import { isHostDeviceFailure, isSameNodeNic, listMovedNics } from "@patchbay/core/nics";
import type { AttachmentRequest, NodeNic, OpenNetns } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { reportNicNotRestored } from "../report.ts";

/** Maximum number of attempts to restore a NIC. Hardware NICs return from a deleted namespace with a delay. */
const ATTEMPTS_MAX = 5;

async function withHostNetns<T>(deps: Deps, work: (host: OpenNetns) => Promise<T>): Promise<T> {
  const host = deps.openHostNetns();
  try {
    return await work(host);
  } finally {
    host.close();
  }
}

async function listRecordedNics(
  { journal, trackedPods, bootId }: Deps,
  excludedRow?: JournalRow,
): Promise<readonly NodeNic[]> {
  const recorded: NodeNic[] = [];
  for (const uid of trackedPods.keys().flatMap((key) => trackedPods.listUids(key))) {
    for (const row of await journal.list(uid)) {
      const isOther = row.podUid !== excludedRow?.podUid || row.sequence !== excludedRow.sequence;
      if (isOther && row.state !== "removed" && row.bootId === bootId) {
        recorded.push(...(row.nodeNics ?? []));
      }
    }
  }
  return recorded;
}

/**
 * Records the settings of the node's NICs that ADD moves into the pod. For a NIC that was not yet fully restored after an
 * earlier attachment, reuses the earlier record, because the NIC's current settings may be incomplete.
 */
export async function recordNodeNics(
  request: AttachmentRequest,
  deps: Deps,
): Promise<Pick<JournalRow, "nodeNics">> {
  const names = listMovedNics(request);
  if (names.length === 0) return {};
  const recorded = await listRecordedNics(deps);
  return withHostNetns(deps, async (host) => {
    const nodeNics: NodeNic[] = [];
    for (const name of names) {
      const nic = await deps.nodeNics.find(host, name);
      if (nic !== undefined) {
        nodeNics.push(recorded.find((record) => isSameNodeNic(record, nic)) ?? nic);
      }
    }
    return nodeNics.length === 0 ? {} : { nodeNics };
  });
}

export async function bringBackNic(netns: OpenNetns, name: string, deps: Deps): Promise<void> {
  await withHostNetns(deps, (host) => deps.nodeNics.returnToHost(netns, name, host));
}

/** Restores NICs that are on the node although plugin host-device failed. Returns true if all NICs are, so that no DEL is needed. */
export async function isAlreadyBack(
  { nodeNics = [], bootId }: JournalRow,
  error: unknown,
  deps: Deps,
): Promise<boolean> {
  if (!isHostDeviceFailure(error) || nodeNics.length === 0 || bootId !== deps.bootId) return false;
  return withHostNetns(deps, async (host) => {
    for (const nic of nodeNics) {
      if ((await deps.nodeNics.restore(host, nic)).kind === "absent") return false;
    }
    return true;
  });
}

interface MissingSetting {
  readonly message: string;
  readonly isTransient: boolean;
}

async function restoreOne(
  nic: NodeNic,
  { host, row }: { readonly host: OpenNetns; readonly row: JournalRow },
  deps: Deps,
): Promise<readonly MissingSetting[]> {
  const restored = await deps.nodeNics.restore(host, nic);
  if (restored.kind === "there") {
    const { rejectedSettings: rejected } = restored;
    if (rejected.length === 0) return [];
    return [{ message: `${nic.name} lacks ${rejected.join(", ")}`, isTransient: true }];
  }
  // Skips a NIC that another attachment has moved and will restore.
  if ((await listRecordedNics(deps, row)).some((other) => isSameNodeNic(other, nic))) return [];
  const isHardware = nic.kind === "";
  const problem = isHardware
    ? "has not returned to the node"
    : "was removed by the kernel with the pod";
  return [{ message: `${nic.name} ${problem}`, isTransient: isHardware }];
}

/**
 * Restores the settings of the node's NICs. Does nothing after a reboot, because the node configures its NICs at boot.
 * @throws AppError with PODNET_FAILED if another attempt may restore the missing settings
 */
export async function restoreNodeNics(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  const { nodeNics = [], bootId, failedRemovals = 0 } = row;
  if (nodeNics.length === 0 || bootId !== deps.bootId) return;
  const unrestored = await withHostNetns(deps, async (host) => {
    const missingSettings: MissingSetting[] = [];
    for (const nic of nodeNics)
      missingSettings.push(...(await restoreOne(nic, { host, row }, deps)));
    return missingSettings;
  });
  if (unrestored.length === 0) {
    const nics = nodeNics.map(({ name }) => name).join(", ");
    deps.log.info("restored a NIC of the node", { pod: facts.key, nics });
    return;
  }
  const message = unrestored.map((setting) => setting.message).join("; ");
  if (unrestored.some(({ isTransient }) => isTransient) && failedRemovals + 1 < ATTEMPTS_MAX) {
    await deps.journal.write({ ...row, failedRemovals: failedRemovals + 1 });
    throw new AppError("PODNET_FAILED", {
      message: `a NIC of the node could not be restored: ${message}`,
    });
  }
  reportNicNotRestored(row, { facts, missing: message }, deps);
}
