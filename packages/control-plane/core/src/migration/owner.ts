// SPDX-License-Identifier: Apache-2.0
// The node and pod that own a guest. `status.nodeName` names the owner; a migration's target only prepares wiring and waits.
import type { Iface, MigrationState, VirtualMachineInstance } from "@patchbay/api";
import { findController, type Pod } from "@patchbay/api/kubernetes";
import { isNicMac } from "@patchbay/api/values";
import { sha256Hex } from "../nics/sha256.ts";
import { findByName, ifacesOf } from "../nics/nics.ts";

/** DNS-1123 subdomain limit, minus prefix and suffix. Source: Kubernetes names. */
const NAME_MAX = 253 - "virt-launcher-".length - 6;

/**
 * The pod's name is derived from the VMI's UID, and for a target pod also from the migration's, so that a second create
 * fails with "already exists".
 */
export function launcherPodName(vmi: VirtualMachineInstance, migrationUid?: string): string {
  const { uid = "", name } = vmi.metadata;
  const made = migrationUid === undefined ? uid : `${uid} ${migrationUid}`;
  return `virt-launcher-${name.slice(0, NAME_MAX)}-${sha256Hex(made).slice(0, 5)}`;
}

/** Returns the migration state while it is open: from when virt-controller writes it until it sets `completed`. */
export function migrationIn(migration: MigrationState | undefined): MigrationState | undefined {
  if (migration?.migrationUid === undefined || migration.completed === true) return undefined;
  return migration;
}

export function openMigration({ status }: VirtualMachineInstance): MigrationState | undefined {
  return migrationIn(status?.migrationState);
}

function isOwnedByTarget({ status }: VirtualMachineInstance): boolean {
  const target = status?.migrationState?.targetNode;
  return target !== undefined && status?.nodeName === target;
}

/** Name of the owner's pod. The VMI ends with this pod. */
export function ownerPodName(vmi: VirtualMachineInstance): string {
  const { migrationUid, sourcePod } = vmi.status?.migrationState ?? {};
  if (isOwnedByTarget(vmi)) return launcherPodName(vmi, migrationUid);
  return sourcePod ?? launcherPodName(vmi);
}

export function isControlledBy(pod: Pod, { metadata }: VirtualMachineInstance): boolean {
  const { uid = "", namespace } = metadata;
  return uid !== "" && pod.metadata.namespace === namespace && findController(pod)?.uid === uid;
}

/**
 * Whether the pod is the owner's: in the VMI's namespace, controlled by it, and with the derived name. Labels do not
 * count, because everyone who may create pods can write them.
 */
export function isLauncherOf(pod: Pod, vmi: VirtualMachineInstance): boolean {
  return isControlledBy(pod, vmi) && pod.metadata.name === ownerPodName(vmi);
}

/** The owner starts, changes and stops the guest. The target prepares for an incoming guest. */
export type NodeRole = "owner" | "target";

interface NodeLauncher {
  readonly uid: string;
  readonly name: string;
  readonly role: NodeRole;
}

function roleOn(vmi: VirtualMachineInstance, node: string): NodeRole | undefined {
  const { nodeName = node } = vmi.status ?? {};
  if (nodeName === node) return "owner";
  return openMigration(vmi)?.targetNode === node ? "target" : undefined;
}

/** The pod that the node manages. Undefined if there is none or the guest has left it. */
export function launcherOn(vmi: VirtualMachineInstance, node: string): NodeLauncher | undefined {
  const role = roleOn(vmi, node);
  const pods = Object.entries(vmi.status?.activePods ?? {});
  const uid = pods.find(([, name]) => name === node)?.[0];
  if (role === undefined || uid === undefined) return undefined;
  const target = vmi.status?.migrationState?.migrationUid;
  const name = role === "owner" ? ownerPodName(vmi) : launcherPodName(vmi, target);
  return { uid, name, role };
}

/** Sets each interface's MAC to the guest's, because the target's pod NIC has another one. */
function ifacesWithGuestMacs(vmi: VirtualMachineInstance): readonly Iface[] {
  return ifacesOf(vmi.spec).map((iface) => {
    const mac = findByName(vmi.status?.interfaces, iface.name)?.mac ?? "";
    return iface.macAddress !== undefined || !isNicMac(mac) ? iface : { ...iface, macAddress: mac };
  });
}

/** The VMI as its migration's target manages it: with the target pod's attachments, and without reported interfaces. */
export function targetView(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const { migrationState, ...status } = vmi.status ?? {};
  const attachments = [...(migrationState?.targetAttachments ?? [])];
  const { domain } = vmi.spec;
  const devices = { ...domain.devices, interfaces: [...ifacesWithGuestMacs(vmi)] };
  return {
    ...vmi,
    spec: { ...vmi.spec, domain: { ...domain, devices } },
    status: { ...status, attachments, interfaces: [] },
  };
}

/** Fields of `status.migrationState` that a node writes, by its role. virt-controller writes all others. */
export const NODE_MIGRATION_FIELDS = {
  owner: [
    "startTimestamp",
    "mode",
    "failed",
    "failureReason",
    "abortStatus",
    "progress",
    "sourceNodeDomainLeft",
  ],
  target: [
    "targetNodeAddress",
    "targetDirectMigrationNodePorts",
    "targetNodeDomainDetected",
    "targetNodeDomainFaults",
    "targetNodeDomainReadyTimestamp",
  ],
} as const satisfies Readonly<Record<NodeRole, readonly (keyof MigrationState)[]>>;
