// SPDX-License-Identifier: Apache-2.0
// Makes and removes the wiring of a guest NIC in a pod's namespace: links, rules and sysctls.
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
import { answersTableName, answersTable } from "../nft/answers.ts";
import { guardTableName, guardTable } from "../nft/guard.ts";
import { natTableName, natTable } from "../nft/nat.ts";
import { hasTable, hasTableNamed, removalText, replacementText } from "../nft/table.ts";
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
  applyRules(commands: string): Promise<void>;
  setSysctls(sysctls: readonly Sysctl[]): Promise<void>;
}

type WiringOfKind<Union, Kind> = Extract<Union, { readonly kind: Kind }>;

/** One kind of wiring. All functions are idempotent. */
interface Wirer<Kind extends PodWiring["kind"]> {
  readonly isWired: (state: NetnsState, wiring: WiringOfKind<ObservedWiring, Kind>) => boolean;
  readonly wire: (
    pod: Pod,
    wiring: WiringOfKind<PodWiring, Kind>,
    before: NetnsState,
  ) => Promise<void>;
  readonly unwire: (
    pod: Pod,
    wiring: WiringOfKind<RemovableWiring, Kind>,
    before: NetnsState,
  ) => Promise<void>;
}

function findNic({ links }: NetnsState, name: string): WiredLink {
  const nic = links.get(name);
  if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: name });
  if (canCarryVm(nic)) return nic;
  throw new AppError("PODNET_NETWORK_CANNOT_CARRY_VM", { kind: nic.kind, link: name });
}

/** Returns commands that correct the rules of a pod that answers its guest, or delete them; empty if there is no fault. */
export function answersCommands(
  { tables }: NetnsState,
  wiring: Omit<BridgeWiring, "owner" | "queues">,
): string {
  const { replies: answers, bridgeName } = wiring;
  const name = answersTableName(bridgeName);
  if (answers === undefined) return hasTableNamed(tables, name) ? removalText(name) : "";
  const table = answersTable({ ...wiring, answers, bridgeMac: deriveBridgeMac(wiring.mac) });
  return hasTable(tables, table) ? "" : replacementText(table);
}

export async function wireWithoutTap(pod: Pod, wiring: BridgeWiring): Promise<void> {
  const before = await pod.readState();
  const nic = findNic(before, wiring.podInterfaceName);
  await pod.applyRules(answersCommands(before, wiring));
  await pod.applyChanges(planBridge(nic, before.links, wiring));
  const present = nic.master === wiring.bridgeName ? before.forwarding : undefined;
  await pod.applyChanges(planNicForwardingRemoval(wiring, present));
}

/** Adds the rules before the addresses, so that only the guest is answered. */
async function wireBridge(pod: Pod, wiring: BridgeWiring, before: NetnsState): Promise<void> {
  const nic = findNic(before, wiring.podInterfaceName);
  await pod.applyRules(answersCommands(before, wiring));
  const changes = planWiring(nic, before.links, wiring);
  await pod.applyChanges(changes);
  // A NIC with another MAC than the guest's creates no entry for it.
  const isNew = nic.master === undefined && wiring.incomingPodUid === undefined;
  const present = await forwardingAfter(changes, { before, isNew }, pod);
  await pod.applyChanges(planForwarding(wiring, present));
  await pod.applyRules(removeStaleRules(before, wiring));
}

/** Removes rules of the tap's previous bridge, which match the tap's name and would filter its frames on the new one. */
function removeStaleRules(
  { links, tables }: NetnsState,
  { tapName, bridgeName }: BridgeWiring,
): string {
  const { master } = links.get(tapName) ?? {};
  if (master === undefined || master === bridgeName) return "";
  const name = answersTableName(master);
  return hasTableNamed(tables, name) ? removalText(name) : "";
}

export async function removeBridge(
  pod: Pod,
  bridgeName: string,
  before: NetnsState,
): Promise<void> {
  const name = answersTableName(bridgeName);
  await pod.applyRules(hasTableNamed(before.tables, name) ? removalText(name) : "");
  await unwireBridge(pod, { tapName: "", bridgeName }, before);
}

async function forwardingAfter(
  changes: readonly LinkChange[],
  { before, isNew }: { readonly before: NetnsState; readonly isNew: boolean },
  pod: Pod,
): Promise<readonly ForwardingEntry[] | undefined> {
  if (changes.length === 0) return before.forwarding;
  return isNew ? undefined : (await pod.readState()).forwarding;
}

async function unwireBridge(
  pod: Pod,
  wiring: Pick<BridgeWiring, "tapName" | "bridgeName">,
  before: NetnsState,
): Promise<void> {
  const changes = planUnwiring([...before.links.values()], wiring);
  try {
    await pod.applyChanges(changes);
  } catch (error) {
    // Another process may have deleted a link meanwhile, so this continues with those that exist now.
    const remaining = planUnwiring(await pod.listLinks(), wiring);
    if (remaining.length === changes.length) throw error;
    await pod.applyChanges(remaining);
  }
}

export const BRIDGE: Wirer<"bridge"> = {
  isWired: (state, wiring) =>
    isWired(state.links, state.forwarding, wiring) && answersCommands(state, wiring) === "",
  wire: wireBridge,
  unwire: unwireBridge,
};

/** Adds the rules before the addresses, so that nothing is forwarded past them. */
async function wireMasquerade(
  pod: Pod,
  wiring: MasqueradeWiring,
  before: NetnsState,
): Promise<void> {
  if (!before.links.has(wiring.podInterfaceName)) {
    throw new AppError("PODNET_LINK_MISSING", { link: wiring.podInterfaceName });
  }
  const table = natTable(wiring);
  if (!hasTable(before.tables, table)) await pod.applyRules(replacementText(table));
  await pod.applyChanges(planLinks(before.links, wiring));
  const made = await pod.readState();
  await pod.setSysctls(planSysctls(made.sysctls, wiring));
  await pod.applyChanges(planAddresses(made.links, wiring));
  await pod.applyChanges(planForwarding(wiring, made.forwarding));
}

export const MASQUERADE: Wirer<"masquerade"> = {
  isWired: (state, wiring) =>
    state.links.has(wiring.podInterfaceName) &&
    hasTable(state.tables, natTable(wiring)) &&
    isRouted(state, wiring),
  wire: wireMasquerade,
  unwire: unwireBridge,
};

/** Kinds of links that QEMU can open. Source: libvirt docs/formatdomain, generic ethernet connection. */
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

export const TAP: Wirer<"tap"> = {
  isWired: ({ links }, { tapName }) => {
    const tap = links.get(tapName);
    return tap?.up === true && canOpen(tap);
  },
  wire: wirePluginTap,
  // The network's plugin created the tap and removes it.
  unwire: () => Promise.resolve(),
};

/** Returns commands that correct the send guard, or delete it if the guest may send anything; empty if it is right. */
export function guardCommands({ tables }: NetnsState, { tapName, guard }: ObservedWiring): string {
  const name = guardTableName(tapName);
  if (guard === undefined) return hasTableNamed(tables, name) ? removalText(name) : "";
  const table = guardTable(tapName, guard);
  return hasTable(tables, table) ? "" : replacementText(table);
}

export function isGuarded(state: NetnsState, wiring: ObservedWiring): boolean {
  return guardCommands(state, wiring) === "";
}

export async function addGuard(
  pod: Pod,
  wiring: ObservedWiring,
  before: NetnsState,
): Promise<void> {
  await pod.applyRules(guardCommands(before, wiring));
}

export async function removeGuard(
  pod: Pod,
  { tapName }: RemovableWiring,
  before: NetnsState,
): Promise<void> {
  const name = guardTableName(tapName);
  if (hasTableNamed(before.tables, name)) await pod.applyRules(removalText(name));
}

/**
 * Removes the rules of a wiring of any kind, because a deleted iface does not report its kind. The NAT table marks
 * that the namespace forwards, so it is removed after the sysctls are reset. Links mark that rules are left, so they
 * are removed later.
 */
export async function removeRules(
  pod: Pod,
  wiring: RemovableWiring,
  before: NetnsState,
): Promise<void> {
  const { tables, sysctls } = before;
  const nat = natTableName(wiring.podInterfaceName);
  if (hasTableNamed(tables, nat))
    await pod.setSysctls(planSysctlReset(wiring.podInterfaceName, sysctls));
  const own = wiring.kind === "tap" ? [] : [answersTableName(wiring.bridgeName)];
  const remaining = [nat, ...own].filter((name) => hasTableNamed(tables, name));
  await pod.applyRules(remaining.map(removalText).join(""));
}
