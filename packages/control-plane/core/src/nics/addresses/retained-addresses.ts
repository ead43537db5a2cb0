// SPDX-License-Identifier: Apache-2.0
// Chooses the IP addresses that a VM's NICs request again after a restart.
import {
  isAbsent,
  isDefaultNetwork,
  names,
  type Iface,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmStatus,
  type Attachment,
} from "@patchbay/api";
import {
  parseRetainedAddresses,
  printRetainedAddresses,
  normalizeAddresses,
  parsePreferredIps,
  type RetainedAddresses,
  type NetworkSelection,
} from "@patchbay/api/annotations";
import { findByName, ifacesOf, networkNameOf, networksOf } from "../nics.ts";
import { findCondition, type Conditions, type NewCondition } from "../../status/conditions.ts";

type RecordedAddresses = NonNullable<VmStatus["ipAddresses"]>[number];

/** Checks whether the interface's spec chooses the addresses. If so, no addresses are retained. */
export function hasOwnAddressing({ ips = [], ipamClaimName, cniArgs }: Iface): boolean {
  return ips.length > 0 || ipamClaimName !== undefined || cniArgs?.["ips"] !== undefined;
}

function findRetainingNetwork(vm: VirtualMachine, iface: Iface): string | undefined {
  const network = findByName(networksOf(vm.spec.template.spec), iface.name);
  if (network === undefined || isDefaultNetwork(network)) return undefined;
  if (isAbsent(iface) || hasOwnAddressing(iface)) return undefined;
  return networkNameOf(network, vm.metadata.namespace ?? "");
}

/** Finds the attachment of a NIC to the network NAMESPACE/NAME. Undefined unless the NIC is ready. */
export function findReadyAttachment(
  vmi: VirtualMachineInstance | undefined,
  name: string,
  networkName: string,
): Attachment | undefined {
  if (findByName(vmi?.status?.interfaces, name)?.hotplug?.phase !== "Ready") return undefined;
  return vmi?.status?.attachments?.find(
    (each) => each.name === name && each.networkName === networkName && each.state === "Attached",
  );
}

/** Lists addresses to record in the VM's status: each NIC's current addresses, or else its recorded addresses on the same network. */
export function listRetainedAddresses(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): readonly RecordedAddresses[] {
  return ifacesOf(vm.spec.template.spec).flatMap((iface) => {
    const { name } = iface;
    const networkName = findRetainingNetwork(vm, iface);
    if (networkName === undefined) return [];
    const recorded = findByName(vm.status?.ipAddresses, name);
    const recordedIps = recorded?.networkName === networkName ? recorded.ips : [];
    const attachment = findReadyAttachment(vmi, name, networkName);
    const ips = (attachment && normalizeAddresses(attachment.ips)) ?? recordedIps;
    return ips.length === 0 ? [] : [{ name, networkName, ips: [...ips] }];
  });
}

export function withRetainedAddresses(
  vmi: VirtualMachineInstance,
  retained: readonly RetainedAddresses[],
): VirtualMachineInstance {
  if (retained.length === 0) return vmi;
  const annotation = { [names.RETAINED_ADDRESSES_ANNOTATION]: printRetainedAddresses(retained) };
  const annotations = { ...vmi.metadata.annotations, ...annotation };
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

export function withLastAddresses(
  vmi: VirtualMachineInstance,
  vm: VirtualMachine,
): VirtualMachineInstance {
  return withRetainedAddresses(vmi, listRetainedAddresses(vm, undefined));
}

export function readRetainedAddresses(vmi: VirtualMachineInstance): readonly RetainedAddresses[] {
  return parseRetainedAddresses(vmi.metadata.annotations?.[names.RETAINED_ADDRESSES_ANNOTATION]);
}

/** Returns the interface's retained addresses on network NAMESPACE/NAME. Empty if the spec of the interface requests addresses itself. */
export function findPreferredIps(
  iface: Iface,
  networkName: string,
  retained: readonly RetainedAddresses[],
): readonly string[] {
  const recorded = findByName(retained, iface.name);
  return recorded?.networkName === networkName && !hasOwnAddressing(iface) ? recorded.ips : [];
}

/** Condition type of VMI and VM. The condition exists only while a NIC lacks one of its retained addresses. */
export const ADDRESS_CHANGED = "AddressChanged";

const ADDRESS_CHANGED_REASON = "AddressNotKept";

function describeChange(
  { name, networkName = "", podInterfaceName, ips }: Attachment,
  elements: readonly NetworkSelection[],
): readonly string[] {
  const element = elements.find((each) => each.interface === podInterfaceName);
  const current = normalizeAddresses(ips);
  const lostIps = parsePreferredIps(element).filter((ip) => !current.includes(ip));
  if (lostIps.length === 0) return [];
  const currentText = current.length === 0 ? "no address" : current.join(", ");
  return [
    `interface ${name} now has ${currentText} on ${networkName}; it had ${lostIps.join(", ")} before`,
  ];
}

export function addressesCondition(
  attachments: readonly Attachment[],
  elements: readonly NetworkSelection[],
): readonly NewCondition[] {
  const changes = attachments
    .filter(({ state }) => state === "Attached")
    .flatMap((attachment) => describeChange(attachment, elements));
  if (changes.length === 0) return [];
  const message = `${changes.join("; ")}; see the events of the launcher pod for the cause`;
  return [{ type: ADDRESS_CHANGED, status: "True", reason: ADDRESS_CHANGED_REASON, message }];
}

export function findNewAddressChange(
  before: Conditions | undefined,
  now: Conditions | undefined,
): { readonly reason: string; readonly message: string } | undefined {
  const [old, current] = [before, now].map((list) => findCondition(list, ADDRESS_CHANGED)?.message);
  return current === undefined || current === old
    ? undefined
    : { reason: ADDRESS_CHANGED_REASON, message: current };
}
