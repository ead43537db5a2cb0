// SPDX-License-Identifier: Apache-2.0
// Detaches a network as its journal row describes. If the plugin's DEL fails repeatedly, removes the NIC without the plugin.
import { isNicMac, normalizeMac } from "@patchbay/api/values";
import type {
  AttachmentRequest,
  CniResult,
  BorrowedNic,
  OpenNetns,
} from "@patchbay/core/interfaces";
import { findNetworkStatus, type JournalRow } from "@patchbay/cni";
import { findRenamedNic, movesNodeNic } from "@patchbay/core/nics";
import { messageOf } from "@patchbay/base";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { reportDetached, reportRemovedByForce } from "../report.ts";
import { restoreRoutes } from "./default-route.ts";
import { removeDeviceInfo } from "./device.ts";
import { openRowNetns } from "./netns.ts";
import { bringBackNic, isAlreadyBack, restoreNodeNics } from "./node-nics.ts";

interface Nic {
  readonly index: number;
  readonly mac: string;
}

function findNic(result: CniResult, interfaceName: string): Nic {
  const nics = result.interfaces ?? [];
  const index = nics.findIndex(
    ({ name, sandbox }) => name === interfaceName && sandbox !== undefined && sandbox !== "",
  );
  return { index, mac: nics[index]?.mac ?? "" };
}

function hasDifferentMac({ args }: AttachmentRequest, { mac }: Nic): boolean {
  const requested = args.find(([key]) => key === "MAC")?.[1];
  return requested !== undefined && isNicMac(mac) && normalizeMac(requested) !== normalizeMac(mac);
}

/** Returns the settings that the NIC had after ADD, or only its name if the result of ADD is unknown. */
export function buildBorrowedNic(
  request: AttachmentRequest,
  result: CniResult | undefined,
): BorrowedNic {
  const { interfaceName: name } = request;
  if (result === undefined) return { name, addresses: [] };
  const nic = findNic(result, name);
  const addresses = (result.ips ?? [])
    .filter(({ interface: owner }) => owner === undefined || owner === nic.index)
    .map(({ address }) => address);
  return { name, ...(hasDifferentMac(request, nic) && { mac: nic.mac }), addresses };
}

/** Number of failed DELs after which net-agent removes the NIC without its plugin, by state of the pod. */
const FAILED_REMOVALS_MAX = { alive: 5, ending: 5, ended: 3 } as const;

/** Restores the NIC's original name, by which the plugin finds it. KubeVirt renames NICs and gives their old names to other links. */
async function restoreName(row: JournalRow, netns: OpenNetns, deps: Deps): Promise<void> {
  const { interfaceName: originalName } = row.request;
  const name = findRenamedNic(await deps.podNetwork.listLinks(netns), originalName);
  if (name === undefined) return;
  const mac = row.result && findNetworkStatus(row.result, row.network, originalName).mac;
  await deps.podNetwork.restoreName(netns, {
    name,
    originalName,
    ...(mac !== undefined && { mac }),
  });
}

async function restoreSettings(
  row: JournalRow,
  context: { readonly netns: OpenNetns; readonly facts: PodFacts },
  deps: Deps,
): Promise<void> {
  try {
    const borrowedNic = buildBorrowedNic(row.request, row.result);
    const paths = row.paths === undefined ? {} : { paths: row.paths };
    await deps.podNetwork.restoreNic(context.netns, { ...borrowedNic, ...paths });
  } catch (error) {
    // The failure is not rethrown. DEL must run in any case, and the plugin may not need the NIC's original settings.
    const reason = messageOf(error);
    deps.log.warn("failed to restore the settings of a NIC", { pod: context.facts.key, reason });
  }
}

/** Restores the NIC's name and settings, and builds the request for DEL. The request omits a network namespace that no longer exists. */
async function prepareRemoval(
  row: JournalRow,
  facts: PodFacts,
  deps: Deps,
): Promise<AttachmentRequest> {
  const netns = openRowNetns(row, deps);
  if (netns !== undefined) {
    try {
      await restoreName(row, netns, deps);
      await restoreSettings(row, { netns, facts }, deps);
    } finally {
      netns.close();
    }
    return row.request;
  }
  const { containerId, interfaceName, config, args, capabilityArgs } = row.request;
  return { containerId, interfaceName, config, args, capabilityArgs };
}

/** Removes the NIC from the pod without calling the CNI plugin, to free the NIC's name. */
async function removeNic(row: JournalRow, deps: Deps): Promise<void> {
  const netns = openRowNetns(row, deps);
  if (netns === undefined) return;
  const { interfaceName, config } = row.request;
  try {
    const renamedNic = findRenamedNic(await deps.podNetwork.listLinks(netns), interfaceName);
    // A NIC of the node is moved back to the host instead of being deleted.
    if (movesNodeNic(config)) await bringBackNic(netns, renamedNic ?? interfaceName, deps);
    else if (renamedNic !== undefined) await deps.podNetwork.removeLink(netns, renamedNic);
    await deps.podNetwork.removeLink(netns, interfaceName);
  } finally {
    netns.close();
  }
}

async function releaseAddresses(row: JournalRow, deps: Deps): Promise<string> {
  try {
    await deps.cni.releaseAddresses(row.request);
    return "its addresses were released";
  } catch (error) {
    const addresses = row.result?.ips?.map(({ address }) => address).join(", ") ?? "";
    const addressText = addresses === "" ? "its addresses" : addresses;
    return `${addressText} may still be reserved (${messageOf(error)})`;
  }
}

/** Removes the NIC and its leases without the plugin, because some plugins never succeed, for example dhcp without its daemon. */
async function removeWithoutPlugin(
  row: JournalRow,
  { facts, cause }: { readonly facts: PodFacts; readonly cause: string },
  deps: Deps,
): Promise<void> {
  await removeNic(row, deps);
  const released = await releaseAddresses(row, deps);
  reportRemovedByForce(row, { facts, cause, released }, deps);
}

/** Runs DEL and rethrows its error. Returns why the NIC must be removed without its plugin if DEL is impossible or fails too often. */
async function runDel(row: JournalRow, facts: PodFacts, deps: Deps): Promise<string | undefined> {
  try {
    const request = await prepareRemoval(row, facts, deps);
    if (request.config.plugins.length === 0) return "its container ID is unknown";
    await deps.cni.del(request, row.result);
    return undefined;
  } catch (error) {
    if (await isAlreadyBack(row, error, deps)) return undefined;
    const failedRemovals = (row.failedRemovals ?? 0) + 1;
    if (failedRemovals >= FAILED_REMOVALS_MAX[facts.attachments.podState]) {
      return `it keeps failing: ${messageOf(error)}`;
    }
    await deps.journal.write({ ...row, failedRemovals });
    throw error;
  }
}

async function removeLinks(row: JournalRow, facts: PodFacts, deps: Deps): Promise<JournalRow> {
  const cause = await runDel(row, facts, deps);
  if (cause !== undefined) await removeWithoutPlugin(row, { facts, cause }, deps);
  if (row.nodeNics === undefined) return row;
  // Records the removal before the node's NICs are restored, because after a crash a second DEL would find no NIC and fail.
  const removedRow: JournalRow = { ...row, state: "begun", isUnmade: true, failedRemovals: 0 };
  await deps.journal.write(removedRow);
  return removedRow;
}

/** Deletes the entry in libcni's cache, as libcni does after DEL. Otherwise, the attachment would still seem to exist. */
async function forgetCached(
  { containerId, interfaceName }: AttachmentRequest,
  { resultCache }: Deps,
): Promise<void> {
  for (const entry of await resultCache.list()) {
    if (entry.containerId === containerId && entry.interfaceName === interfaceName) {
      await resultCache.forget(entry);
    }
  }
}

/** Detaches the network and marks its row as removed. The caller must delete the row after it has written the pod's status. */
export async function detach(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  const removedRow = row.isUnmade === true ? row : await removeLinks(row, facts, deps);
  await restoreNodeNics(removedRow, facts, deps);
  await restoreRoutes(row, facts, deps);
  await removeDeviceInfo(row, deps);
  if (row.isAdopted === true) await forgetCached(row.request, deps);
  await deps.journal.write({ ...row, state: "removed" });
  reportDetached(row, facts, deps);
}
