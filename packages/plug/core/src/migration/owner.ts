// SPDX-License-Identifier: Apache-2.0
// Whose is the guest? `nodeName` says it: one node owns it at each moment, the target of a migration only wires and waits.
import {
  controllerOf,
  isNicMac,
  type Iface,
  type MigrationState,
  type Pod,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { sha256Hex } from "../iface/sha256.ts";
import { findByName, ifacesOf } from "../spec/nics.ts";

/** DNS-1123 subdomain limit of a pod's name, minus prefix and suffix. Source: Kubernetes names. */
const NAME_MAX = 253 - "virt-launcher-".length - 6;

/**
 * The pod's name is a function of the VMI's uid, and of the migration's where it is a migration's target, so that making it
 * twice is an "already exists".
 */
export function launcherPodName(vmi: VirtualMachineInstance, migrationUid?: string): string {
  const { uid = "", name } = vmi.metadata;
  const made = migrationUid === undefined ? uid : `${uid} ${migrationUid}`;
  return `virt-launcher-${name.slice(0, NAME_MAX)}-${sha256Hex(made).slice(0, 5)}`;
}

/** What is told of a migration that is open: from when nodes are told of it until virt-controller says that it is over. */
export function migrationIn(migration: MigrationState | undefined): MigrationState | undefined {
  if (migration?.migrationUid === undefined || migration.completed === true) return undefined;
  return migration;
}

/** The migration that the VMI is in. */
export function openMigration({ status }: VirtualMachineInstance): MigrationState | undefined {
  return migrationIn(status?.migrationState);
}

/** Whether the guest is owned by the node to which its last migration led. */
function isHandedOver({ status }: VirtualMachineInstance): boolean {
  const target = status?.migrationState?.targetNode;
  return target !== undefined && status?.nodeName === target;
}

/** Name of the owner's pod: with it the VMI ends. */
export function ownerPodName(vmi: VirtualMachineInstance): string {
  const { migrationUid, sourcePod } = vmi.status?.migrationState ?? {};
  if (isHandedOver(vmi)) return launcherPodName(vmi, migrationUid);
  return sourcePod ?? launcherPodName(vmi);
}

/** Whether the VMI controls the pod, in its own namespace. */
export function isControlledBy(pod: Pod, { metadata }: VirtualMachineInstance): boolean {
  const { uid = "", namespace } = metadata;
  return uid !== "" && pod.metadata.namespace === namespace && controllerOf(pod)?.uid === uid;
}

/**
 * Whether the pod is the owner's: in the VMI's namespace, controlled by it, and of the name that uids give. Labels are words
 * that anybody who may make a pod can write.
 */
export function isLauncherOf(pod: Pod, vmi: VirtualMachineInstance): boolean {
  return isControlledBy(pod, vmi) && pod.metadata.name === ownerPodName(vmi);
}

/** What a node is to a VMI: the owner starts, changes and ends the guest; the target makes ready for one that comes. */
export type NodeRole = "owner" | "target";

/** The launcher pod of a VMI that is on a node. */
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

/** The pod that the node works with; undefined: none, or one that the guest has left. */
export function launcherOn(vmi: VirtualMachineInstance, node: string): NodeLauncher | undefined {
  const role = roleOn(vmi, node);
  const pods = Object.entries(vmi.status?.activePods ?? {});
  const uid = pods.find(([, name]) => name === node)?.[0];
  if (role === undefined || uid === undefined) return undefined;
  const target = vmi.status?.migrationState?.migrationUid;
  const name = role === "owner" ? ownerPodName(vmi) : launcherPodName(vmi, target);
  return { uid, name, role };
}

/** The ifaces, each with the MAC that its guest has: the NIC in the target's pod has another one. */
function ifacesOfGuest(vmi: VirtualMachineInstance): readonly Iface[] {
  return ifacesOf(vmi.spec).map((iface) => {
    const mac = findByName(vmi.status?.interfaces, iface.name)?.mac ?? "";
    return iface.macAddress !== undefined || !isNicMac(mac) ? iface : { ...iface, macAddress: mac };
  });
}

/** The VMI as the target of its migration has it: with that pod's attachments, of which nothing was reported yet. */
export function targetView(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const { migrationState, ...status } = vmi.status ?? {};
  const attachments = [...(migrationState?.targetAttachments ?? [])];
  const { domain } = vmi.spec;
  const devices = { ...domain.devices, interfaces: [...ifacesOfGuest(vmi)] };
  return {
    ...vmi,
    spec: { ...vmi.spec, domain: { ...domain, devices } },
    status: { ...status, attachments, interfaces: [] },
  };
}
