// SPDX-License-Identifier: Apache-2.0
// Finds the node and the pod that own a guest. The owning node is in `status.nodeName`.
import { names, type Iface, type MigrationState, type VirtualMachineInstance } from "@patchbay/api";
import { findController, type Pod } from "@patchbay/api/kubernetes";
import { isNicMac } from "@patchbay/api/values";
import { sha256Hex } from "../nics/sha256.ts";
import { findByName, ifacesOf } from "../nics/nics.ts";

/**
 * Maximum length of the VMI's name in the name of a launcher pod. The whole name has at most 253 characters, including a suffix of 6
 * characters. Source: Kubernetes names.
 */
const VMI_PART_MAX = 253 - "virt-launcher-".length - 6;

/** Builds the launcher pod's name. Repeated calls return the same name, so a second create fails with "already exists". */
export function launcherPodName(vmi: VirtualMachineInstance, migrationUid?: string): string {
  const { uid = "", name } = vmi.metadata;
  const uids = migrationUid === undefined ? uid : `${uid} ${migrationUid}`;
  return `virt-launcher-${name.slice(0, VMI_PART_MAX)}-${sha256Hex(uids).slice(0, 5)}`;
}

/** Returns the state of an open migration. Returns undefined without a migration, or if virt-controller has marked it as `completed`. */
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

export function ownerPodName(vmi: VirtualMachineInstance): string {
  const { migrationUid, sourcePod } = vmi.status?.migrationState ?? {};
  if (isOwnedByTarget(vmi)) return launcherPodName(vmi, migrationUid);
  return sourcePod ?? launcherPodName(vmi);
}

export function isControlledBy(pod: Pod, { metadata }: VirtualMachineInstance): boolean {
  const { uid = "", namespace } = metadata;
  return uid !== "" && pod.metadata.namespace === namespace && findController(pod)?.uid === uid;
}

/** Returns whether the pod has the launchers' label. In other pods, virt-api lets users change the annotations that report networks. */
export function hasLauncherLabel({ metadata }: Pod): boolean {
  return metadata.labels?.[names.KUBEVIRT_LABEL] === names.LAUNCHER_LABEL_VALUE;
}

/** Returns whether the pod is the guest's pod on the owning node. Ignores labels, because pod authors can set any labels. */
export function isLauncherOf(pod: Pod, vmi: VirtualMachineInstance): boolean {
  return isControlledBy(pod, vmi) && pod.metadata.name === ownerPodName(vmi);
}

/** Role of a node. The owner starts, changes and stops the guest. The target prepares for an incoming guest. */
export type NodeRole = "owner" | "target";

interface NodeLauncher {
  readonly uid: string;
  readonly name: string;
  readonly role: NodeRole;
}

function findRole(vmi: VirtualMachineInstance, node: string): NodeRole | undefined {
  const { nodeName = node } = vmi.status ?? {};
  if (nodeName === node) return "owner";
  return openMigration(vmi)?.targetNode === node ? "target" : undefined;
}

/** Returns the VMI's pod on the node. Undefined if the node is neither the owner nor the target of an open migration. */
export function launcherOn(vmi: VirtualMachineInstance, node: string): NodeLauncher | undefined {
  const role = findRole(vmi, node);
  const pods = Object.entries(vmi.status?.activePods ?? {});
  const uid = pods.find(([, name]) => name === node)?.[0];
  if (role === undefined || uid === undefined) return undefined;
  const target = vmi.status?.migrationState?.migrationUid;
  const name = role === "owner" ? ownerPodName(vmi) : launcherPodName(vmi, target);
  return { uid, name, role };
}

/** Sets the guest's MAC in each interface whose spec has none. Otherwise, the target would use the MAC of its own pod NIC. */
function withGuestMacs(vmi: VirtualMachineInstance): readonly Iface[] {
  return ifacesOf(vmi.spec).map((iface) => {
    const mac = findByName(vmi.status?.interfaces, iface.name)?.mac ?? "";
    return iface.macAddress !== undefined || !isNicMac(mac) ? iface : { ...iface, macAddress: mac };
  });
}

/** Returns the target node's view of the VMI, which has the target pod's attachments and no reported interfaces. */
export function targetView(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const { migrationState, ...status } = vmi.status ?? {};
  const attachments = [...(migrationState?.targetAttachments ?? [])];
  const { domain } = vmi.spec;
  const devices = { ...domain.devices, interfaces: [...withGuestMacs(vmi)] };
  return {
    ...vmi,
    spec: { ...vmi.spec, domain: { ...domain, devices } },
    status: { ...status, attachments, interfaces: [] },
  };
}

/** Fields of `status.migrationState` that virt-handler writes, by its node's role. virt-controller writes all other fields. */
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
