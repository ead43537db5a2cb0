// SPDX-License-Identifier: Apache-2.0
// Builds one row per interface of a VM, with its state. Pure.
import {
  isVmiFinal,
  type Attachment,
  type Iface,
  type IfacePhase,
  type IfaceStatus,
  type Network,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiStatus,
} from "@patchbay/api";
import { ifacesOf, networksOf } from "@patchbay/core/nics";

export interface IfaceRow {
  readonly name: string;
  /** Entry of the VM's template. */
  readonly vmIface?: Iface;
  /** Entry of the VMI's specification. */
  readonly vmiIface?: Iface;
  readonly network?: Network;
  readonly attachment?: Attachment;
  readonly status?: IfaceStatus;
}

export interface IfaceSource {
  readonly vm?: VirtualMachine;
  readonly vmi?: VirtualMachineInstance;
}

interface Lists {
  readonly vmIfaces: readonly Iface[];
  readonly vmiIfaces: readonly Iface[];
  readonly networks: readonly Network[];
  readonly attachments: readonly Attachment[];
  readonly statuses: readonly IfaceStatus[];
}

function statusListsOf(status: VmiStatus): Pick<Lists, "attachments" | "statuses"> {
  return { attachments: status.attachments ?? [], statuses: status.interfaces ?? [] };
}

function listsOf({ vm, vmi }: IfaceSource): Lists {
  // The VMI's networks come first, because the guest uses them.
  const specs = [vmi?.spec, vm?.spec.template.spec].filter((spec) => spec !== undefined);
  return {
    vmIfaces: vm === undefined ? [] : ifacesOf(vm.spec.template.spec),
    vmiIfaces: vmi === undefined ? [] : ifacesOf(vmi.spec),
    networks: specs.flatMap(networksOf),
    ...statusListsOf(vmi?.status ?? {}),
  };
}

function find<T extends { readonly name?: string }>(
  entries: readonly T[],
  name: string,
): T | undefined {
  return entries.find((entry) => entry.name === name);
}

function rowOf(name: string, lists: Lists): IfaceRow {
  const entries = {
    vmIface: find(lists.vmIfaces, name),
    vmiIface: find(lists.vmiIfaces, name),
    network: find(lists.networks, name),
    attachment: find(lists.attachments, name),
    status: find(lists.statuses, name),
  };
  const known = Object.entries(entries).filter(([, entry]) => entry !== undefined);
  return { name, ...Object.fromEntries(known) };
}

/** Returns one row for each known interface. Those of the specification precede others. */
export function toIfaceRows(source: IfaceSource): readonly IfaceRow[] {
  const lists = listsOf(source);
  const all = [lists.vmIfaces, lists.vmiIfaces, lists.statuses, lists.attachments];
  const names = new Set(all.flat().flatMap(({ name }) => name ?? []));
  return [...names].map((name) => rowOf(name, lists));
}

/** Returns the name of the NetworkAttachmentDefinition, or `pod`. */
export function networkOf(row: IfaceRow): string | undefined {
  return row.network?.multus?.networkName ?? (row.network?.pod === undefined ? undefined : "pod");
}

/** Returns whether the VMI's guest runs or will start. */
export function isLive(vmi: VirtualMachineInstance | undefined): boolean {
  return vmi !== undefined && !isVmiFinal(vmi);
}

/** Returns the phase, even if no node has reported one. Ignores reports about a guest that has ended. */
export function phaseOfRow(row: IfaceRow, isRunning: boolean): IfacePhase | "Stopped" {
  if (!isRunning) return "Stopped";
  const phase = row.status?.hotplug?.phase;
  if (phase !== undefined) return phase;
  return row.status?.infoSource?.includes("domain") === true ? "Ready" : "Pending";
}

/** Returns the state of the link of the guest's device, or the declared state while the VM is stopped. */
export function linkOf(row: IfaceRow, isRunning: boolean): string | undefined {
  if (isRunning) return row.status?.linkState;
  const state = (row.vmiIface ?? row.vmIface)?.state;
  return state === "up" || state === "down" ? state : undefined;
}

/** Returns the MAC address from the source that is closest to the guest. */
export function macOf(row: IfaceRow): string | undefined {
  const reported = [row.status?.mac, row.attachment?.mac];
  const declared = [row.vmiIface?.macAddress, row.vmIface?.macAddress];
  return [...reported, ...declared].find((mac) => mac !== undefined && mac !== "");
}

/** Returns the addresses that the guest or CNI reports. */
export function addressesOf(row: IfaceRow): string {
  return (row.status?.ipAddresses ?? row.attachment?.ips ?? []).join(",");
}

export function podInterfaceOf(row: IfaceRow): string | undefined {
  return row.status?.podInterfaceName ?? row.attachment?.podInterfaceName;
}

export function reasonOf(row: IfaceRow): string | undefined {
  return row.status?.hotplug?.reason ?? row.attachment?.reason;
}
