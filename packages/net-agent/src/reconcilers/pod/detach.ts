// SPDX-License-Identifier: Apache-2.0
// Takes one attachment away by what the journal knows of it, also when its plugin can no longer do so.
import type { JournalRow } from "@patchbay/cni";
import { messageOf } from "@patchbay/core";
import type { AttachmentRequest, OpenNetns } from "@patchbay/ports";
import type { Deps } from "../../deps.ts";
import type { PodFacts } from "./observe.ts";

/** After so many failed DELs a NIC that is gone counts as detached. Until then a plugin may still clean up elsewhere. */
const FAILED_REMOVALS_MAX = 5;

/** The namespace of ADD, while it is there; another one at the same path is none of ours. The caller closes it. */
function openNetns(row: JournalRow, deps: Deps): OpenNetns | undefined {
  const { netnsPath } = row.request;
  if (netnsPath === undefined || row.bootId !== deps.bootId) return undefined;
  const netns = deps.namespaces.open(netnsPath);
  if (netns?.inode === row.netnsInode) return netns;
  netns?.close();
  return undefined;
}

/** The request of DEL; it names the namespace only while that of ADD is there. */
function removalOf(row: JournalRow, deps: Deps): AttachmentRequest {
  const { containerId, interfaceName, config, args, capabilityArgs, netnsPath } = row.request;
  const without = { containerId, interfaceName, config, args, capabilityArgs };
  const netns = openNetns(row, deps);
  netns?.close();
  return netns === undefined || netnsPath === undefined ? without : { ...without, netnsPath };
}

async function isNicThere(row: JournalRow, deps: Deps): Promise<boolean> {
  const netns = openNetns(row, deps);
  if (netns === undefined) return false;
  try {
    const links = await deps.podNetwork.listLinks(netns);
    return links.some((link) => link.name === row.request.interfaceName);
  } finally {
    netns.close();
  }
}

/**
 * Some plugins fail for ever, for example macvlan 1.1.1 once its parent is gone. When the NIC is gone too, what is
 * left is its lease.
 */
async function releaseOrThrow(row: JournalRow, error: unknown, deps: Deps): Promise<void> {
  const failedRemovals = (row.failedRemovals ?? 0) + 1;
  if (failedRemovals < FAILED_REMOVALS_MAX || (await isNicThere(row, deps))) {
    await deps.journal.write({ ...row, failedRemovals });
    throw error;
  }
  await deps.cni.releaseAddresses(row.request);
  const { network } = row;
  deps.log.warn("network counts as detached: its plugin fails and the NIC is gone", {
    ...{ network, link: row.request.interfaceName, attempt: failedRemovals },
    reason: messageOf(error),
  });
}

/** Removes the attachment; its row stays, marked, until the pod's status says so. */
export async function detach(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  try {
    await deps.cni.del(removalOf(row, deps), row.result);
  } catch (error) {
    await releaseOrThrow(row, error, deps);
  }
  await deps.journal.write({ ...row, state: "removed" });
  const { network } = row;
  const link = row.request.interfaceName;
  deps.log.info("detached network", { pod: facts.key, network, link });
  if (row.state !== "attached" || facts.pod === undefined) return;
  const message = `Removed ${link} of ${network}`;
  deps.events.record(facts.pod, {
    type: "Normal",
    reason: "RemovedInterface",
    message,
    about: link,
  });
}
