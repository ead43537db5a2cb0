// SPDX-License-Identifier: Apache-2.0
// Takes one attachment away by what the journal knows of it, also when its plugin can no longer do so.
import { isNicMac, normalizeMac } from "@patchbay/api";
import type { AttachmentRequest, CniResult, LentNic, OpenNetns } from "@patchbay/core/ports";
import { networkStatusOf, type JournalRow } from "@patchbay/cni";
import { findMovedNic, messageOf, takesNodeNic } from "@patchbay/core";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { tellDetached, tellTakenApart } from "../tell.ts";
import { bringBackRoutes } from "./default-route.ts";
import { dropDeviceInfo } from "./device.ts";
import { openNetnsOf } from "./netns.ts";
import { bringBackNic, isBackAlready, restoreNodeNics } from "./node-nics.ts";

interface Nic {
  readonly index: number;
  readonly mac: string;
}

/** What the result says of the NIC that was asked for. */
function nicOf(result: CniResult, interfaceName: string): Nic {
  const nics = result.interfaces ?? [];
  const index = nics.findIndex(
    ({ name, sandbox }) => name === interfaceName && sandbox !== undefined && sandbox !== "",
  );
  return { index, mac: nics[index]?.mac ?? "" };
}

/** A NIC whose plugin did not set the MAC that was asked for got it from somebody else. */
function isMacForeign({ args }: AttachmentRequest, { mac }: Nic): boolean {
  const asked = args.find(([key]) => key === "MAC")?.[1];
  return asked !== undefined && isNicMac(mac) && normalizeMac(asked) !== normalizeMac(mac);
}

/** What the NIC of an attachment had after ADD; nothing but its name where no result is known. */
export function lentNicOf(request: AttachmentRequest, result: CniResult | undefined): LentNic {
  const { interfaceName: name } = request;
  if (result === undefined) return { name, addresses: [] };
  const nic = nicOf(result, name);
  const addresses = (result.ips ?? [])
    .filter(({ interface: owner }) => owner === undefined || owner === nic.index)
    .map(({ address }) => address);
  return { name, ...(isMacForeign(request, nic) && { mac: nic.mac }), addresses };
}

/**
 * After so many failed DELs an attachment is taken apart without its plugin; fewer once nothing of the pod can use it.
 * Until then the plugin may still clean up what nobody else knows of.
 */
const FAILED_REMOVALS_MAX = { alive: 5, ending: 5, over: 3 } as const;

/** A plugin looks for the NIC by its name, which KubeVirt has given to another link: what ADD made must go, not that. */
async function restoreName(row: JournalRow, netns: OpenNetns, deps: Deps): Promise<void> {
  const { interfaceName: before } = row.request;
  const name = findMovedNic(await deps.podNetwork.listLinks(netns), before);
  if (name === undefined) return;
  const mac = row.result && networkStatusOf(row.result, row.network, before).mac;
  await deps.podNetwork.restoreName(netns, { name, before, ...(mac !== undefined && { mac }) });
}

async function giveBack(
  row: JournalRow,
  where: { readonly netns: OpenNetns; readonly facts: PodFacts },
  deps: Deps,
): Promise<void> {
  try {
    await deps.podNetwork.giveBack(where.netns, lentNicOf(row.request, row.result));
  } catch (error) {
    // DEL comes nevertheless: it may do without, and it is what takes the NIC away.
    const reason = messageOf(error);
    deps.log.warn("giving back to a NIC failed", { pod: where.facts.key, reason });
  }
}

/** The request of DEL; it names the namespace only while that of ADD is there, and then the NIC has what it had. */
async function prepareRemoval(
  row: JournalRow,
  facts: PodFacts,
  deps: Deps,
): Promise<AttachmentRequest> {
  const netns = openNetnsOf(row, deps);
  if (netns !== undefined) {
    try {
      await restoreName(row, netns, deps);
      await giveBack(row, { netns, facts }, deps);
    } finally {
      netns.close();
    }
    return row.request;
  }
  const { containerId, interfaceName, config, args, capabilityArgs } = row.request;
  return { containerId, interfaceName, config, args, capabilityArgs };
}

/** Takes the NIC out of the pod past its plugin, so that its name is free and its addresses are not used. */
async function removeNic(row: JournalRow, deps: Deps): Promise<void> {
  const netns = openNetnsOf(row, deps);
  if (netns === undefined) return;
  const { interfaceName, config } = row.request;
  try {
    const moved = findMovedNic(await deps.podNetwork.listLinks(netns), interfaceName);
    // One of the node is not removed, of whatever kind it is.
    if (takesNodeNic(config)) await bringBackNic(netns, moved ?? interfaceName, deps);
    else if (moved !== undefined) await deps.podNetwork.removeLink(netns, moved);
    await deps.podNetwork.removeLink(netns, interfaceName);
  } finally {
    netns.close();
  }
}

/** Gives the addresses back by their IPAM plugins alone; what may be left of them, in words. */
async function releaseAddresses(row: JournalRow, deps: Deps): Promise<string> {
  try {
    await deps.cni.releaseAddresses(row.request);
    return "its addresses were released";
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
  tellTakenApart(row, { facts, why, released }, deps);
}

/** Why the plugin is not asked again; undefined: it has done its work. */
async function del(row: JournalRow, facts: PodFacts, deps: Deps): Promise<string | undefined> {
  try {
    const request = await prepareRemoval(row, facts, deps);
    if (request.config.plugins.length === 0) return "its container ID is unknown";
    await deps.cni.del(request, row.result);
    return undefined;
  } catch (error) {
    if (await isBackAlready(row, error, deps)) return undefined;
    const failedRemovals = (row.failedRemovals ?? 0) + 1;
    if (failedRemovals >= FAILED_REMOVALS_MAX[facts.attachments.pod]) {
      return `it keeps failing: ${messageOf(error)}`;
    }
    await deps.journal.write({ ...row, failedRemovals });
    throw error;
  }
}

/** Has the plugins take away what they have made; the row afterwards. */
async function unmake(row: JournalRow, facts: PodFacts, deps: Deps): Promise<JournalRow> {
  const why = await del(row, facts, deps);
  if (why !== undefined) await takeApart(row, { facts, why }, deps);
  if (row.nodeNics === undefined) return row;
  // A plugin that is asked once more finds no NIC, and fails.
  const unmade: JournalRow = { ...row, state: "begun", isUnmade: true, failedRemovals: 0 };
  await deps.journal.write(unmade);
  return unmade;
}

/** As libcni does after DEL: what is remembered there would be taken for an attachment that is there. */
async function forgetCached(
  { containerId, interfaceName }: AttachmentRequest,
  { resultCache }: Deps,
): Promise<void> {
  for (const one of await resultCache.list()) {
    if (one.containerId === containerId && one.interfaceName === interfaceName) {
      await resultCache.forget(one);
    }
  }
}

/** Removes the attachment; its row stays, marked, until the pod's status says so. */
export async function detach(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  const unmade = row.isUnmade === true ? row : await unmake(row, facts, deps);
  await restoreNodeNics(unmade, facts, deps);
  await bringBackRoutes(row, facts, deps);
  await dropDeviceInfo(row, deps);
  if (row.isAdopted === true) await forgetCached(row.request, deps);
  await deps.journal.write({ ...row, state: "removed" });
  tellDetached(row, facts, deps);
}
