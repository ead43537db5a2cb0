// SPDX-License-Identifier: Apache-2.0
// Which addresses do a VM's NICs have, that the networks of its next launcher are asked for again?
import {
  isAbsent,
  isDefaultNetwork,
  names,
  parseKeptAddresses,
  printKeptAddresses,
  soundAddresses,
  keptIpsOf,
  type Iface,
  type KeptAddresses,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmStatus,
  type Attachment,
  type NetworkSelection,
} from "@patchbay/api";
import { findByName, ifacesOf, networkNameOf, networksOf } from "../spec/nics.ts";
import { findCondition, type Conditions, type NewCondition } from "../status/conditions.ts";

/** As the VM's status has it. */
type Kept = NonNullable<VmStatus["ipAddresses"]>[number];

/** Whoever names addresses himself, or where they come from, asks for no others. */
function asksForItsOwn({ ips = [], ipamClaimName, cniArgs }: Iface): boolean {
  return ips.length > 0 || ipamClaimName !== undefined || cniArgs?.["ips"] !== undefined;
}

/** The network whose addresses the iface keeps; undefined: none that could be asked for them. */
function keepingNetworkOf(vm: VirtualMachine, iface: Iface): string | undefined {
  const network = findByName(networksOf(vm.spec.template.spec), iface.name);
  if (network === undefined || isDefaultNetwork(network)) return undefined;
  if (isAbsent(iface) || asksForItsOwn(iface)) return undefined;
  return networkNameOf(network, vm.metadata.namespace ?? "");
}

/** What the guest's NIC has on that network; undefined while it is not there. */
function addressesOn(
  vmi: VirtualMachineInstance | undefined,
  name: string,
  networkName: string,
): readonly string[] | undefined {
  if (findByName(vmi?.status?.interfaces, name)?.hotplug?.phase !== "Ready") return undefined;
  const attachment = vmi?.status?.attachments?.find(
    (each) => each.name === name && each.networkName === networkName && each.state === "Attached",
  );
  return attachment && soundAddresses(attachment.ips);
}

/**
 * The addresses that are kept: what the guest's NICs have goes before what was known. An iface that is no longer declared,
 * or that is to be on another network, is forgotten.
 */
export function keptAddressesOf(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): readonly Kept[] {
  return ifacesOf(vm.spec.template.spec).flatMap((iface) => {
    const { name } = iface;
    const networkName = keepingNetworkOf(vm, iface);
    if (networkName === undefined) return [];
    const known = findByName(vm.status?.ipAddresses, name);
    const before = known?.networkName === networkName ? known.ips : [];
    const ips = addressesOn(vmi, name, networkName) ?? before;
    return ips.length === 0 ? [] : [{ name, networkName, ips: [...ips] }];
  });
}

/** The VMI, told these addresses. */
export function withKept(
  vmi: VirtualMachineInstance,
  kept: readonly KeptAddresses[],
): VirtualMachineInstance {
  if (kept.length === 0) return vmi;
  const annotation = { [names.KEPT_ADDRESSES_ANNOTATION]: printKeptAddresses(kept) };
  const annotations = { ...vmi.metadata.annotations, ...annotation };
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

/** The VMI, told which addresses the NICs of its VM's last guest had. */
export function withToldAddresses(
  vmi: VirtualMachineInstance,
  vm: VirtualMachine,
): VirtualMachineInstance {
  return withKept(vmi, keptAddressesOf(vm, undefined));
}

/** What a VMI was told. */
export function toldAddresses(vmi: VirtualMachineInstance): readonly KeptAddresses[] {
  return parseKeptAddresses(vmi.metadata.annotations?.[names.KEPT_ADDRESSES_ANNOTATION]);
}

/** What an iface is to prefer on a network, NAMESPACE/NAME. */
export function keptIpsFor(
  iface: Iface,
  networkName: string,
  kept: readonly KeptAddresses[],
): readonly string[] {
  const known = findByName(kept, iface.name);
  return known?.networkName === networkName && !asksForItsOwn(iface) ? known.ips : [];
}

/** A condition of the VMI, and so of its VM; there is none while all have what they had. */
export const ADDRESS_CHANGED = "AddressChanged";

/** Of the condition, and of the event that tells of it. */
const REASON = "AddressNotKept";

function sayOf(
  { name, networkName = "", podInterfaceName, ips }: Attachment,
  elements: readonly NetworkSelection[],
): readonly string[] {
  const element = elements.find((each) => each.interface === podInterfaceName);
  const has = soundAddresses(ips);
  const lost = keptIpsOf(element).filter((ip) => !has.includes(ip));
  if (lost.length === 0) return [];
  const now = has.length === 0 ? "no address" : has.join(", ");
  return [`interface ${name} now has ${now} on ${networkName}; it had ${lost.join(", ")} before`];
}

/** What is told where a network did not give again what a NIC had. */
export function addressesCondition(
  attachments: readonly Attachment[],
  elements: readonly NetworkSelection[],
): readonly NewCondition[] {
  const changes = attachments
    .filter(({ state }) => state === "Attached")
    .flatMap((attachment) => sayOf(attachment, elements));
  if (changes.length === 0) return [];
  const message = `${changes.join("; ")}; events of the launcher pod say why`;
  return [{ type: ADDRESS_CHANGED, status: "True", reason: REASON, message }];
}

/** The change that is told now and was not told before, for an event. */
export function newAddressChange(
  before: Conditions | undefined,
  now: Conditions | undefined,
): { readonly reason: string; readonly message: string } | undefined {
  const [old, told] = [before, now].map((list) => findCondition(list, ADDRESS_CHANGED)?.message);
  return told === undefined || told === old ? undefined : { reason: REASON, message: told };
}
