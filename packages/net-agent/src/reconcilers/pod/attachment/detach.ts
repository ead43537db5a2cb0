// SPDX-License-Identifier: Apache-2.0
// Takes one attachment away by what the journal knows of it, also when its plugin can no longer do so.
import type { JournalRow } from "@patchbay/cni";
import { messageOf } from "@patchbay/core";
import type { AttachmentRequest, OpenNetns } from "@patchbay/ports";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";

/**
 * After so many failed DELs an attachment is taken apart without its plugin; fewer once nothing of the pod can use it.
 * Until then the plugin may still clean up what nobody else knows of.
 */
const FAILED_REMOVALS_MAX = { alive: 5, ending: 5, over: 3 } as const;

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

/** Takes the NIC out of the pod past its plugin, so that its name is free and its addresses are not used. */
async function removeNic(row: JournalRow, deps: Deps): Promise<void> {
  const netns = openNetns(row, deps);
  try {
    if (netns !== undefined) await deps.podNetwork.removeLink(netns, row.request.interfaceName);
  } finally {
    netns?.close();
  }
}

/** Gives the addresses back by their IPAM plugins alone; what may be left of them, in words. */
async function releaseAddresses(row: JournalRow, deps: Deps): Promise<string> {
  try {
    await deps.cni.releaseAddresses(row.request);
    return "its addresses were given back";
  } catch (error) {
    const addresses = row.result?.ips?.map(({ address }) => address).join(", ") ?? "";
    const what = addresses === "" ? "its addresses" : addresses;
    return `${what} may still be reserved (${messageOf(error)})`;
  }
}

/** Some plugins fail for ever, for example macvlan 1.1.1 once its parent is gone, and dhcp without its daemon. */
async function takeApart(
  row: JournalRow,
  { facts, why }: { readonly facts: PodFacts; readonly why: string },
  deps: Deps,
): Promise<void> {
  await removeNic(row, deps);
  const released = await releaseAddresses(row, deps);
  const { network, request } = row;
  const link = request.interfaceName;
  const message = `${link} of ${network} was removed without its plugin: ${why}; ${released}; rules and links that the plugin made on the node may be left`;
  deps.log.warn("network detached without its plugin", {
    pod: facts.key,
    network,
    link,
    reason: message,
  });
  const metadata = { namespace: row.podNamespace, name: row.podName, uid: row.podUid };
  // A pod that is gone can still be told about.
  const pod = facts.pod ?? { apiVersion: "v1", kind: "Pod", metadata };
  const reason = "RemovedInterfaceByForce";
  deps.events.record(pod, { type: "Warning", reason, message, about: link });
}

/** Why the plugin is not asked again; undefined: it has done its work. */
async function del(row: JournalRow, facts: PodFacts, deps: Deps): Promise<string | undefined> {
  if (row.request.config.plugins.length === 0) return "nobody knows which one it is";
  try {
    await deps.cni.del(removalOf(row, deps), row.result);
    return undefined;
  } catch (error) {
    const failedRemovals = (row.failedRemovals ?? 0) + 1;
    if (failedRemovals >= FAILED_REMOVALS_MAX[facts.attachments.pod]) {
      return `it keeps failing: ${messageOf(error)}`;
    }
    await deps.journal.write({ ...row, failedRemovals });
    throw error;
  }
}

/** Removes the attachment; its row stays, marked, until the pod's status says so. */
export async function detach(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  const why = await del(row, facts, deps);
  if (why !== undefined) await takeApart(row, { facts, why }, deps);
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
