// SPDX-License-Identifier: Apache-2.0
// Bridge and tap around the pod NIC: read, plan, change.
import { AppError, type BridgeWiring } from "@patchbay/core";
import type { LinkChange } from "../link-change.ts";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import { answersNameOf, answersTable } from "../nft/answers.ts";
import { hasTable, hasTableNamed, removalText, replacementText } from "../nft/table.ts";
import {
  bridgeMacOf,
  canCarryVm,
  isWired,
  planBridge,
  planForwarding,
  planNicForwarding,
  planUnwiring,
  planWiring,
} from "./bridge-plan.ts";
import type { Pod, NetnsState, Wirer } from "./wirer.ts";

function nicOf({ links }: NetnsState, name: string): WiredLink {
  const nic = links.get(name);
  if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: name });
  if (canCarryVm(nic)) return nic;
  throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: nic.kind, link: name });
}

/** What is missing of the rules around a pod that answers, or there although it does not; none: empty. */
export function answersCommands(
  { tables }: NetnsState,
  wiring: Omit<BridgeWiring, "owner" | "queues">,
): string {
  const { answers, bridgeName } = wiring;
  const name = answersNameOf(bridgeName);
  if (answers === undefined) return hasTableNamed(tables, name) ? removalText(name) : "";
  const table = answersTable({ ...wiring, answers, bridgeMac: bridgeMacOf(wiring.mac) });
  return hasTable(tables, table) ? "" : replacementText(table);
}

/** The bridge with the pod NIC on it: what can be made while the tap is elsewhere. */
export async function wireWithoutTap(pod: Pod, wiring: BridgeWiring): Promise<void> {
  const before = await pod.see();
  const nic = nicOf(before, wiring.podInterfaceName);
  await pod.nft(answersCommands(before, wiring));
  await pod.change(planBridge(nic, before.links, wiring));
  const present = nic.master === wiring.bridgeName ? before.forwarding : undefined;
  await pod.change(planNicForwarding(wiring, present));
}

/** The rules come before the addresses: nothing is answered to others. */
async function wire(pod: Pod, wiring: BridgeWiring, before: NetnsState): Promise<void> {
  const nic = nicOf(before, wiring.podInterfaceName);
  await pod.nft(answersCommands(before, wiring));
  const changes = planWiring(nic, before.links, wiring);
  await pod.change(changes);
  // A NIC that has another MAC than the guest makes no entry for it.
  const isNew = nic.master === undefined && wiring.awaitedIn === undefined;
  const present = await forwardingAfter(changes, { before, isNew }, pod);
  await pod.change(planForwarding(wiring, present));
  await pod.nft(rulesOfPlaceBefore(before, wiring));
}

/** Rules around the bridge that the tap has left name the tap, and would judge its frames on this one too. */
function rulesOfPlaceBefore(
  { links, tables }: NetnsState,
  { tapName, bridgeName }: BridgeWiring,
): string {
  const { master } = links.get(tapName) ?? {};
  if (master === undefined || master === bridgeName) return "";
  const name = answersNameOf(master);
  return hasTableNamed(tables, name) ? removalText(name) : "";
}

/** Removes a bridge that the tap has left, and the rules around it before. */
export async function removeBridge(
  pod: Pod,
  bridgeName: string,
  before: NetnsState,
): Promise<void> {
  const name = answersNameOf(bridgeName);
  await pod.nft(hasTableNamed(before.tables, name) ? removalText(name) : "");
  await unwireBridge(pod, { tapName: "", bridgeName }, before);
}

/** What is forwarded after the links were set; undefined when the NIC was enslaved just now. */
async function forwardingAfter(
  changes: readonly LinkChange[],
  { before, isNew }: { readonly before: NetnsState; readonly isNew: boolean },
  pod: Pod,
): Promise<readonly ForwardingEntry[] | undefined> {
  if (changes.length === 0) return before.forwarding;
  return isNew ? undefined : (await pod.see()).forwarding;
}

/** Removes the tap, then its bridge, as far as they are there. */
export async function unwireBridge(
  pod: Pod,
  wiring: Pick<BridgeWiring, "tapName" | "bridgeName">,
  before: NetnsState,
): Promise<void> {
  const changes = planUnwiring([...before.links.values()], wiring);
  try {
    await pod.change(changes);
  } catch (error) {
    // Somebody else may have removed one meanwhile: what counts is what is there now.
    const left = planUnwiring(await pod.listLinks(), wiring);
    if (left.length === changes.length) throw error;
    await pod.change(left);
  }
}

export const BRIDGE: Wirer<"bridge"> = {
  isWired: (state, wiring) =>
    isWired(state.links, state.forwarding, wiring) && answersCommands(state, wiring) === "",
  wire,
  unwire: unwireBridge,
};
