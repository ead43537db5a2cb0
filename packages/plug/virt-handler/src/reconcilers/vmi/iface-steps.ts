// SPDX-License-Identifier: Apache-2.0
// The steps on an iface: what each is called, and how it is done. Each may be repeated.
import {
  aliasOf,
  domainNameOf,
  findByName,
  hindranceOfFailure,
  ipv6GatewayOf,
  isAppError,
  requestsReported,
  type ErrorCode,
  type NodeAction,
} from "@patchbay/core";
import { switchNetwork } from "./switch-network.ts";
import type { Fallible } from "./tries.ts";
import { isLost, type Turn } from "./turn.ts";

/** A step on an iface. */
export type IfaceAction = Extract<NodeAction, { iface: string }>;
/** One that does something. */
export type FallibleAction = Exclude<IfaceAction, { kind: "wait" }>;

const KINDS: readonly FallibleAction["kind"][] = [
  "rememberAddresses",
  "wireTap",
  "attachDevice",
  "detachDevice",
  "unwireTap",
  "setLink",
  "switchNetwork",
  "removeBridge",
];

/** Names of all steps on an iface, among the steps that are left alone. */
export function stepsOf(iface: string): readonly string[] {
  return KINDS.map((kind) => `${kind} ${iface}`);
}

/** The action as a step that is left alone when it fails. Its circumstances are all NICs: others may free what it needs. */
export function fallibleOf(action: FallibleAction, { facts }: Turn): Fallible {
  const { kind, iface } = action;
  const nics = facts.domain?.facts.nics.map(({ alias }) => alias) ?? [];
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: `${kind} ${iface}`,
    circumstances: JSON.stringify([action, nics]),
    explain: (error) => hindranceOfFailure(kind, error, findByName(facts.ifaces, iface)?.reported),
  };
}

/** Takes some refusals for success: what was asked for is so already, or is on its way. */
async function tolerate(call: Promise<void>, ...codes: readonly ErrorCode[]): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!codes.some((code) => isAppError(error, code))) throw error;
  }
}

/** Puts the device into the definition and into the running guest, at once; one by one where either has it. */
async function attach(alias: string, xml: string, { facts, session }: Turn): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  try {
    await connection.attachDevice(name, xml, "both");
    return;
  } catch (error) {
    if (!isAppError(error, "LIBVIRT_DEVICE_EXISTS")) throw error;
  }
  await tolerate(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  await connection.attachDevice(name, xml, "config");
  await tolerate(connection.attachDevice(name, xml, "live"), "LIBVIRT_DEVICE_EXISTS");
}

/** Takes the device out of the definition, then asks the running guest to let go of it. */
async function detach(iface: string, alias: string, { facts, session, deps }: Turn): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  await tolerate(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  const before = requestsReported(findByName(facts.ifaces, iface)?.reported);
  const takeBack = deps.unplugRequests.note(facts.vmi.metadata.uid ?? "", iface, before);
  try {
    const live = connection.detachDevice(name, alias, "live");
    // It went meanwhile; or an earlier request is still with the guest.
    await tolerate(live, "LIBVIRT_DEVICE_MISSING", "LIBVIRT_UNPLUG_PENDING");
  } catch (error) {
    // Of a connection that is lost nobody knows whether the guest heard it.
    if (!isLost(error)) takeBack();
    throw error;
  }
}

/** What the NIC has is on the disk before wiring takes it. */
async function remember(podInterfaceName: string, { pod, session, deps }: Turn): Promise<void> {
  const row = await deps.podNetwork.readAddresses(session.launcher.netns, podInterfaceName);
  if (ipv6GatewayOf(row) !== undefined && row.gatewayMac === undefined) {
    deps.log.warn("nobody answers for the gateway of IPv6", { link: podInterfaceName });
  }
  await deps.addressStore.write(pod.uid, row);
}

/** Performs one step; what is so already is success. */
export async function performOnIface(action: FallibleAction, turn: Turn): Promise<void> {
  const { facts, session, deps } = turn;
  const { netns } = session.launcher;
  switch (action.kind) {
    case "rememberAddresses":
      await remember(action.podInterfaceName, turn);
      return;
    case "wireTap":
      await deps.podNetwork.wireTap(netns, action.wiring);
      return;
    case "unwireTap":
      await deps.podNetwork.unwireTap(netns, action.wiring);
      return;
    case "attachDevice":
      await attach(aliasOf(action.iface), action.xml, turn);
      return;
    case "detachDevice":
      await detach(action.iface, action.alias, turn);
      return;
    case "switchNetwork":
      await switchNetwork(action, turn);
      return;
    case "removeBridge":
      await deps.podNetwork.removeBridge(netns, action.bridgeName);
      return;
    case "setLink":
      await session.connection.updateDevice(domainNameOf(facts.vmi), action.xml, "live");
  }
}
