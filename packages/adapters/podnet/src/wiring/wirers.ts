// SPDX-License-Identifier: Apache-2.0
// Creates and removes the wiring of a guest NIC in a pod's network namespace: links, rules and sysctls.
import { AppError } from "@patchbay/base";
import type {
  BridgeWiring,
  RemovableWiring,
  MasqueradeWiring,
  PodWiring,
  ObservedWiring,
  TapWiring,
} from "@patchbay/core/nics";
import type { ForwardingEntry, LinkChange, WiredLink } from "../links.ts";
import { answersTableName, buildAnswersTable } from "../nft/answers.ts";
import { guardTableName, buildGuardTable } from "../nft/guard.ts";
import { natTableName, buildNatTable } from "../nft/nat.ts";
import { buildPolicyTable, policyTableName } from "../nft/policy.ts";
import {
  hasTable,
  hasTableNamed,
  removeTable,
  replaceTable,
  type RulesetTables,
  type TableChange,
  type TableName,
  updateTable,
} from "../nft/table.ts";
import type { NetnsState } from "../netlink/netns-state.ts";
import type { Sysctl } from "../sysctls.ts";
import {
  deriveBridgeMac,
  canCarryVm,
  isWired,
  planBridge,
  planForwarding,
  planNicForwardingRemoval,
  planUnwiring,
  planWiring,
} from "./bridge-plan.ts";
import {
  isRouted,
  planAddresses,
  planLinks,
  planSysctls,
  planSysctlReset,
} from "./masquerade-plan.ts";

export interface Pod {
  readState(): Promise<NetnsState>;
  listLinks(): Promise<readonly WiredLink[]>;
  applyChanges(changes: readonly LinkChange[]): Promise<void>;
  applyRules(changes: readonly TableChange[]): Promise<void>;
  setSysctls(sysctls: readonly Sysctl[]): Promise<void>;
}

type WiringOfKind<Union, Kind> = Extract<Union, { readonly kind: Kind }>;

/** Functions that check, create and remove one kind of wiring. All functions are idempotent. */
interface Wirer<Kind extends PodWiring["kind"]> {
  readonly isWired: (state: NetnsState, wiring: WiringOfKind<ObservedWiring, Kind>) => boolean;
  readonly wire: (
    pod: Pod,
    wiring: WiringOfKind<PodWiring, Kind>,
    stateBefore: NetnsState,
  ) => Promise<void>;
  readonly unwire: (
    pod: Pod,
    wiring: WiringOfKind<RemovableWiring, Kind>,
    stateBefore: NetnsState,
  ) => Promise<void>;
}

function findNic({ links }: NetnsState, name: string): WiredLink {
  const nic = links.get(name);
  if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: name });
  if (canCarryVm(nic)) return nic;
  throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: nic.kind, link: name });
}

function removeIfPresent(tables: RulesetTables, name: TableName): readonly TableChange[] {
  return hasTableNamed(tables, name) ? [removeTable(name)] : [];
}

/** Plans the creation or replacement of the table that {@link buildAnswersTable} builds, or its removal if the wiring has no answers. */
export function planAnswers(
  { tables }: NetnsState,
  wiring: Omit<BridgeWiring, "owner" | "queues">,
): readonly TableChange[] {
  const { replies: answers, bridgeName } = wiring;
  const name = answersTableName(bridgeName);
  if (answers === undefined) return removeIfPresent(tables, name);
  const table = buildAnswersTable({ ...wiring, answers, bridgeMac: deriveBridgeMac(wiring.mac) });
  return hasTable(tables, table) ? [] : [replaceTable(table)];
}

export async function wireWithoutTap(pod: Pod, wiring: BridgeWiring): Promise<void> {
  const stateBefore = await pod.readState();
  const nic = findNic(stateBefore, wiring.podInterfaceName);
  await pod.applyRules(planAnswers(stateBefore, wiring));
  await pod.applyChanges(planBridge(nic, stateBefore.links, wiring));
  const presentEntries = nic.master === wiring.bridgeName ? stateBefore.forwarding : undefined;
  await pod.applyChanges(planNicForwardingRemoval(wiring, presentEntries));
}

/** Adds the rules before the bridge gets addresses. Otherwise, the pod would briefly answer requests from hosts other than its guest. */
async function wireBridge(pod: Pod, wiring: BridgeWiring, stateBefore: NetnsState): Promise<void> {
  const nic = findNic(stateBefore, wiring.podInterfaceName);
  await pod.applyRules(planAnswers(stateBefore, wiring));
  const changes = planWiring(nic, stateBefore.links, wiring);
  await pod.applyChanges(changes);
  // If a NIC is new on the bridge, the entries are not read, because the kernel always adds a forwarding entry for the guest's MAC.
  const isNew = nic.master === undefined && wiring.incomingPodUid === undefined;
  const presentEntries = await readForwardingAfter(changes, { stateBefore, isNew }, pod);
  await pod.applyChanges(planForwarding(wiring, presentEntries));
  await pod.applyRules(removeStaleRules(stateBefore, wiring));
}

/** Plans the removal of the rules of the tap's previous bridge. These rules would filter the tap's frames on the new bridge. */
function removeStaleRules(
  { links, tables }: NetnsState,
  { tapName, bridgeName }: BridgeWiring,
): readonly TableChange[] {
  const { master } = links.get(tapName) ?? {};
  if (master === undefined || master === bridgeName) return [];
  return removeIfPresent(tables, answersTableName(master));
}

export async function removeBridge(
  pod: Pod,
  bridgeName: string,
  stateBefore: NetnsState,
): Promise<void> {
  await pod.applyRules(removeIfPresent(stateBefore.tables, answersTableName(bridgeName)));
  await unwireBridge(pod, { tapName: "", bridgeName }, stateBefore);
}

async function readForwardingAfter(
  changes: readonly LinkChange[],
  { stateBefore, isNew }: { readonly stateBefore: NetnsState; readonly isNew: boolean },
  pod: Pod,
): Promise<readonly ForwardingEntry[] | undefined> {
  if (changes.length === 0) return stateBefore.forwarding;
  return isNew ? undefined : (await pod.readState()).forwarding;
}

async function unwireBridge(
  pod: Pod,
  wiring: Pick<BridgeWiring, "tapName" | "bridgeName">,
  stateBefore: NetnsState,
): Promise<void> {
  const changes = planUnwiring([...stateBefore.links.values()], wiring);
  try {
    await pod.applyChanges(changes);
  } catch (error) {
    // Another process may have deleted a link, so the removal is planned again with the remaining links.
    const remaining = planUnwiring(await pod.listLinks(), wiring);
    if (remaining.length === changes.length) throw error;
    await pod.applyChanges(remaining);
  }
}

export const BRIDGE_WIRER: Wirer<"bridge"> = {
  isWired: (state, wiring) =>
    isWired(state.links, state.forwarding, wiring) && planAnswers(state, wiring).length === 0,
  wire: wireBridge,
  unwire: unwireBridge,
};

/** Adds the rules before the addresses, so that no packet bypasses the rules. */
async function wireMasquerade(
  pod: Pod,
  wiring: MasqueradeWiring,
  stateBefore: NetnsState,
): Promise<void> {
  if (!stateBefore.links.has(wiring.podInterfaceName)) {
    throw new AppError("PODNET_LINK_MISSING", { link: wiring.podInterfaceName });
  }
  const table = buildNatTable(wiring);
  if (!hasTable(stateBefore.tables, table)) await pod.applyRules([replaceTable(table)]);
  await pod.applyChanges(planLinks(stateBefore.links, wiring));
  const stateWithLinks = await pod.readState();
  await pod.setSysctls(planSysctls(stateWithLinks.sysctls, wiring));
  await pod.applyChanges(planAddresses(stateWithLinks.links, wiring));
  await pod.applyChanges(planForwarding(wiring, stateWithLinks.forwarding));
}

export const MASQUERADE_WIRER: Wirer<"masquerade"> = {
  isWired: (state, wiring) =>
    state.links.has(wiring.podInterfaceName) &&
    hasTable(state.tables, buildNatTable(wiring)) &&
    isRouted(state, wiring),
  wire: wireMasquerade,
  unwire: unwireBridge,
};

/** Kinds of links that QEMU can open. Source: libvirt docs/formatdomain, generic ethernet connection */
const OPENABLE_KINDS = ["tun", "macvtap"];

function canOpen(tap: WiredLink): boolean {
  return OPENABLE_KINDS.includes(tap.kind);
}

async function wirePluginTap(
  pod: Pod,
  { tapName }: TapWiring,
  { links }: NetnsState,
): Promise<void> {
  const tap = links.get(tapName);
  if (tap === undefined) throw new AppError("PODNET_LINK_MISSING", { link: tapName });
  if (!canOpen(tap)) {
    throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: tap.kind, link: tapName });
  }
  if (!tap.up) await pod.applyChanges([{ op: "setLink", link: tapName, settings: { up: true } }]);
}

export const TAP_WIRER: Wirer<"tap"> = {
  isWired: ({ links }, { tapName }) => {
    const tap = links.get(tapName);
    return tap?.up === true && canOpen(tap);
  },
  wire: wirePluginTap,
  // Does nothing, because the CNI plugin created the tap and also removes it.
  unwire: () => Promise.resolve(),
};

/** Plans the correction or removal of the table of network policies. Plans nothing if the table is correct. */
export function planPolicy({ tables }: NetnsState, wiring: ObservedWiring): readonly TableChange[] {
  if (wiring.policy === undefined) return removeIfPresent(tables, policyTableName(wiring.tapName));
  const table = buildPolicyTable(wiring, wiring.policy);
  return hasTable(tables, table) ? [] : [updateTable(tables, table)];
}

export function planGuard(
  { tables }: NetnsState,
  { tapName, guard }: ObservedWiring,
): readonly TableChange[] {
  if (guard === undefined) return removeIfPresent(tables, guardTableName(tapName));
  const table = buildGuardTable(tapName, guard);
  return hasTable(tables, table) ? [] : [replaceTable(table)];
}

export function isGuarded(state: NetnsState, wiring: ObservedWiring): boolean {
  return planGuard(state, wiring).length === 0;
}

export async function addGuard(
  pod: Pod,
  wiring: ObservedWiring,
  stateBefore: NetnsState,
): Promise<void> {
  await pod.applyRules([...planGuard(stateBefore, wiring), ...planPolicy(stateBefore, wiring)]);
}

export async function applyPolicy(
  pod: Pod,
  wiring: ObservedWiring,
  stateBefore: NetnsState,
): Promise<void> {
  await pod.applyRules(planPolicy(stateBefore, wiring));
}

export async function removeGuard(
  pod: Pod,
  { tapName }: RemovableWiring,
  stateBefore: NetnsState,
): Promise<void> {
  const names = [guardTableName(tapName), policyTableName(tapName)];
  await pod.applyRules(names.flatMap((name) => removeIfPresent(stateBefore.tables, name)));
}

/**
 * Deletes the NAT table and the table of {@link buildAnswersTable} if they exist. Does not rely on `wiring.kind`, which may be `bridge` for
 * a deleted interface that had masquerade. Resets the sysctls first, because the existence of the NAT table tells later reconcile passes
 * that the removal is unfinished.
 */
export async function removeRules(
  pod: Pod,
  wiring: RemovableWiring,
  stateBefore: NetnsState,
): Promise<void> {
  const { tables, sysctls } = stateBefore;
  const nat = natTableName(wiring.podInterfaceName);
  if (hasTableNamed(tables, nat))
    await pod.setSysctls(planSysctlReset(wiring.podInterfaceName, sysctls));
  const answersTables = wiring.kind === "tap" ? [] : [answersTableName(wiring.bridgeName)];
  await pod.applyRules([nat, ...answersTables].flatMap((name) => removeIfPresent(tables, name)));
}
