// SPDX-License-Identifier: Apache-2.0
// Builds one row for each interface of a VM.
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
  /** Interface from the VM's template; unset if the template does not contain it. */
  readonly vmIface?: Iface;
  /** Interface from the VMI's specification; unset if the specification does not contain it. */
  readonly vmiIface?: Iface;
  readonly network?: Network;
  readonly attachment?: Attachment;
  readonly status?: IfaceStatus;
}

export interface IfaceSource {
  readonly vm?: VirtualMachine;
  readonly vmi?: VirtualMachineInstance;
}

interface IfaceLists {
  readonly vmIfaces: readonly Iface[];
  readonly vmiIfaces: readonly Iface[];
  readonly networks: readonly Network[];
  readonly attachments: readonly Attachment[];
  readonly statuses: readonly IfaceStatus[];
}

function collectStatusLists(status: VmiStatus): Pick<IfaceLists, "attachments" | "statuses"> {
  return { attachments: status.attachments ?? [], statuses: status.interfaces ?? [] };
}

function collectLists({ vm, vmi }: IfaceSource): IfaceLists {
  // The VMI's networks are first, so that a lookup by name finds the network that the guest uses.
  const specs = [vmi?.spec, vm?.spec.template.spec].filter((spec) => spec !== undefined);
  return {
    vmIfaces: vm === undefined ? [] : ifacesOf(vm.spec.template.spec),
    vmiIfaces: vmi === undefined ? [] : ifacesOf(vmi.spec),
    networks: specs.flatMap(networksOf),
    ...collectStatusLists(vmi?.status ?? {}),
  };
}

function findNamed<T extends { readonly name?: string }>(
  entries: readonly T[],
  name: string,
): T | undefined {
  return entries.find((entry) => entry.name === name);
}

function buildRow(name: string, lists: IfaceLists): IfaceRow {
  const entries = {
    vmIface: findNamed(lists.vmIfaces, name),
    vmiIface: findNamed(lists.vmiIfaces, name),
    network: findNamed(lists.networks, name),
    attachment: findNamed(lists.attachments, name),
    status: findNamed(lists.statuses, name),
  };
  const presentEntries = Object.entries(entries).filter(([, entry]) => entry !== undefined);
  return { name, ...Object.fromEntries(presentEntries) };
}

export function toIfaceRows(source: IfaceSource): readonly IfaceRow[] {
  const lists = collectLists(source);
  const all = [lists.vmIfaces, lists.vmiIfaces, lists.statuses, lists.attachments];
  const names = new Set(all.flat().flatMap(({ name }) => name ?? []));
  return [...names].map((name) => buildRow(name, lists));
}

/** Returns CLAIM/REQUEST for a device of a claim, the name of a NetworkAttachmentDefinition, or `pod`; undefined if unknown. */
export function networkOf(row: IfaceRow): string | undefined {
  const { multus, resourceClaim, pod } = row.network ?? {};
  if (resourceClaim !== undefined)
    return `${resourceClaim.claimName ?? ""}/${resourceClaim.requestName ?? ""}`;
  return multus?.networkName ?? (pod === undefined ? undefined : "pod");
}

export function isLive(vmi: VirtualMachineInstance | undefined): boolean {
  return vmi !== undefined && !isVmiFinal(vmi);
}

export function phaseOfRow(row: IfaceRow, isRunning: boolean): IfacePhase | "Stopped" {
  if (!isRunning) return "Stopped";
  const phase = row.status?.hotplug?.phase;
  if (phase !== undefined) return phase;
  return row.status?.infoSource?.includes("domain") === true ? "Ready" : "Pending";
}

/** Returns the link state of the guest's device, or the declared state if the VM is stopped. */
export function linkOf(row: IfaceRow, isRunning: boolean): string | undefined {
  if (isRunning) return row.status?.linkState;
  const state = (row.vmiIface ?? row.vmIface)?.state;
  return state === "up" || state === "down" ? state : undefined;
}

export function macOf(row: IfaceRow): string | undefined {
  const reported = [row.status?.mac, row.attachment?.mac];
  const declared = [row.vmiIface?.macAddress, row.vmIface?.macAddress];
  return [...reported, ...declared].find((mac) => mac !== undefined && mac !== "");
}

export function addressesOf(row: IfaceRow): string {
  return (row.status?.ipAddresses ?? row.attachment?.ips ?? []).join(",");
}

export function podInterfaceOf(row: IfaceRow): string | undefined {
  return row.status?.podInterfaceName ?? row.attachment?.podInterfaceName;
}

export function reasonOf(row: IfaceRow): string | undefined {
  return row.status?.hotplug?.reason ?? row.attachment?.reason;
}
