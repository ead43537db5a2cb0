// SPDX-License-Identifier: Apache-2.0
// Runs CNI CHECK. Failures are reported but cause no detach, because some plugins reject their own valid attachments.
import { isPodFinished, type Pod } from "@patchbay/api/kubernetes";
import type { JournalRow } from "@patchbay/cni";
import { isAppError } from "@patchbay/base";
import { parseKey } from "@patchbay/kube";
import type { CniResult } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { openRowNetns } from "../pod/attachment/netns.ts";
import { findVmiOf } from "../pod/observe.ts";
import type { Finding } from "./finding.ts";

/**
 * Returns the pod if CNI CHECK can be run on its attachments. Launchers are excluded: CHECK expects the addresses on the pod NIC, but
 * the guest may have taken them over.
 */
async function findCheckedPod(key: string, uid: string, deps: Deps): Promise<Pod | undefined> {
  const pod = deps.pods.find(parseKey(key));
  if (pod?.metadata.uid !== uid || isPodFinished(pod)) return undefined;
  if (pod.metadata.deletionTimestamp !== undefined) return undefined;
  try {
    return (await findVmiOf(pod, deps)) === undefined ? pod : undefined;
  } catch (error) {
    if (!isAppError(error)) throw error;
    return undefined; // The API server is unavailable. The next hourly check tries again.
  }
}

/** Returns the row's CNI result for CHECK. Undefined if the row is adopted or not attached, or the pod's network namespace is gone. */
function findResult(row: JournalRow, deps: Deps): CniResult | undefined {
  if (row.state !== "attached" || row.isAdopted === true) return undefined;
  const netns = openRowNetns(row, deps);
  netns?.close();
  return netns === undefined ? undefined : row.result;
}

/** Returns whether the attachment still exists. The caller ignores the failed CHECK of an attachment that was removed meanwhile. */
async function isStillAttached({ podUid, sequence }: JournalRow, deps: Deps): Promise<boolean> {
  const rows = await deps.journal.list(podUid);
  return rows.some((row) => row.sequence === sequence && row.state === "attached");
}

/** Runs CNI CHECK for an attachment of this agent if the pod's network namespace exists. @throws AppError of the plugins */
export async function checkAttachment(row: JournalRow, deps: Deps): Promise<void> {
  const result = findResult(row, deps);
  if (result !== undefined) await deps.cni.check(row.request, result);
}

async function checkOne(row: JournalRow, pod: Pod, deps: Deps): Promise<readonly Finding[]> {
  const { interfaceName: link } = row.request;
  try {
    await checkAttachment(row, deps);
    return [];
  } catch (error) {
    if (!isAppError(error)) throw error;
    if (!(await isStillAttached(row, deps))) return [];
    const subject = `${link} of ${row.network} has changed since it was attached`;
    const resolved = {
      reason: "InterfaceAsAttached",
      message: `${link} matches its attachment again`,
    };
    const key = `check ${row.podUid} ${String(row.sequence)}`;
    return [
      { key, object: pod, about: link, reason: "InterfaceChanged", subject, error, resolved },
    ];
  }
}

export async function checkAttachments(deps: Deps): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const key of deps.trackedPods.keys()) {
    for (const uid of deps.trackedPods.listUids(key)) {
      const pod = await findCheckedPod(key, uid, deps);
      if (pod === undefined) continue;
      for (const row of await deps.journal.list(uid))
        findings.push(...(await checkOne(row, pod, deps)));
    }
  }
  return findings;
}
