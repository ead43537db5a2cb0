// SPDX-License-Identifier: Apache-2.0
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { findMachineFamily } from "@patchbay/domain";
import { isOnRootComplex, buildMachine } from "../vm/spec/machine.ts";
import type { Reason } from "./table.ts";

const NAMED_FIELDS_MAX = 4;

export interface ReasonMessage<R extends Reason = Reason> {
  readonly reason: R;
  readonly message: string;
}

function describeFreePort(vmi: VirtualMachineInstance): string {
  if (isOnRootComplex(vmi)) {
    return "the VM's devices are on the root complex (annotation kubevirt.io/placePCIDevicesOnRootComplex), where nothing can be plugged; restart the VM without the annotation";
  }
  if (findMachineFamily(buildMachine(vmi.spec.domain)) === "pc") {
    return "unplug an interface, or use machine type q35, which can have more ports; the bus of machine type pc has no more slots";
  }
  return "unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts, or with more vCPUs where the guest's interrupt vectors are used up";
}

export function noFreePortMessage(vmi: VirtualMachineInstance): ReasonMessage<"NoFreePciePort"> {
  const { total = 0, free = 0 } = vmi.status?.pciePorts ?? {};
  const message = `${String(free)} of ${String(total)} PCIe ports of the VM are free; ${describeFreePort(vmi)}`;
  return { reason: "NoFreePciePort", message };
}

export function modelNeedsIoPorts(model: string): ReasonMessage<"ModelNeedsIoPorts"> {
  const message = `model ${model} needs I/O ports, which hot-plug ports do not have; use virtio, or add the interface while the VM is stopped`;
  return { reason: "ModelNeedsIoPorts", message };
}

export function pciAddressInUse(pciAddress: string): ReasonMessage {
  const message = `the PCI address ${pciAddress} is in use or does not belong to a port; choose another address, or none`;
  return { reason: "PciAddressInUse", message };
}

/** Maximum number of unanswered unplug requests before the unplug counts as refused. Firmware may lose the first request. */
export const UNPLUG_REQUESTS_MAX = 2;

interface UnplugRequests {
  readonly count: number;
  readonly isRefused: boolean;
}

export function hasRefusedUnplug({ count, isRefused }: UnplugRequests): boolean {
  return isRefused || count > UNPLUG_REQUESTS_MAX;
}

/** Describes a device that the guest has not released. `since` is the time of the first unplug request. */
export function unplugPending(
  requests: UnplugRequests,
  { isPaused, since }: { readonly isPaused: boolean; readonly since: string | undefined },
): ReasonMessage {
  const reason = "WaitingForGuest";
  if (isPaused) {
    return {
      reason,
      message: "the guest is paused and cannot release the device; resume it",
    };
  }
  if (!hasRefusedUnplug(requests)) {
    return { reason, message: "the guest was requested to release the device" };
  }
  const verb = requests.isRefused ? "refused to release" : "has not released";
  const countText = requests.count === 1 ? "1 request" : `${String(requests.count)} requests`;
  const sinceText = since === undefined ? "" : ` since ${since}`;
  return {
    reason: "GuestRefused",
    message: `the guest ${verb} the device after ${countText}${sinceText}; the request is repeated at most once a minute; if the guest hangs or has crashed, reset it or restart the VM`,
  };
}

export const TAP_REPLACED: ReasonMessage = {
  reason: "TapReplaced",
  message:
    "the tap was deleted while the guest's device used it, and QEMU cannot open the new one; the guest was requested to release the device, which is then plugged again",
};

/** Reported for QEMU versions that abort when a device is removed after the deletion of its tap. */
export const TAP_LOST: ReasonMessage = {
  reason: "TapLost",
  message:
    "the tap was deleted while the guest's device used it; this QEMU would abort if the device were removed, so the device stays until the VM is restarted",
};

export const BACKEND_REPLACED: ReasonMessage<"BackendReplaced"> = {
  reason: "BackendReplaced",
  message:
    "the dataplane recreated its socket, and the device is still connected to the old one; the guest was requested to release the device, which is then plugged again",
};

const VHOST_USER_ADVICE =
  "restart the VM with an interface of this binding, or with vhost-user.patchbay.io/sockets in spec.domain.resources.limits";

export const MEMORY_NOT_SHARED: ReasonMessage<"MemoryNotShared"> = {
  reason: "MemoryNotShared",
  message: `the guest's memory is not shared, so the dataplane cannot read or write its frames; ${VHOST_USER_ADVICE}`,
};

export const INTERRUPT_VECTORS: ReasonMessage<"InterruptVectors"> = {
  reason: "InterruptVectors",
  message: `the guest runs under software emulation, where QEMU crashes if a vhost-user NIC has interrupt vectors; ${VHOST_USER_ADVICE}, which makes NICs without them`,
};

export const LINKS_KEEP_CHANGING: ReasonMessage<"LinksRestless"> = {
  reason: "LinksRestless",
  message:
    "the links in the pod were restored several times, and another program changes them each time; they are now restored every 10 s, and at once when the interface or the VM changes",
};

export const WAITING_FOR_MIGRATION: ReasonMessage<"WaitingForMigration"> = {
  reason: "WaitingForMigration",
  message: "the VM is being migrated; the change is made when the migration has ended",
};

export const POD_INTERFACE_MISSING: ReasonMessage<"PodInterfaceMissing"> = {
  reason: "PodInterfaceMissing",
  message:
    "the NIC that CNI created is no longer in the pod; remove the interface and add it again to create a new one",
};

export const POLICY_NOT_ENFORCED: ReasonMessage<"PolicyNotEnforced"> = {
  reason: "PolicyNotEnforced",
  message:
    "a NetworkPolicy or MultiNetworkPolicy selects the VM on this network, and Patchbay cannot filter the frames of this binding, or behind a sidecar proxy; use masquerade or bridge without a sidecar, or change the VM's labels or the policy's podSelector",
};

export function staysOnNetwork(networkName: string | undefined): string {
  return `the NIC stays on ${networkName === undefined ? "its old network" : `network ${networkName}`}`;
}

/** MTU of the pod's links, in bytes, and whether the interface's specification requests it. */
interface CurrentMtu {
  readonly mtu: number;
  readonly isRequested: boolean;
}

/** Describes a difference between the MTU of the guest's NIC and the current MTU. Both MTUs are in bytes. */
export function mtuDiffers(guestMtu: number, current: CurrentMtu): ReasonMessage<"MtuDiffers"> {
  const direction = current.isRequested ? "to" : "from";
  const advice =
    guestMtu > current.mtu
      ? `larger frames ${direction} the guest are lost; set the MTU in the guest,`
      : "the guest could send larger frames;";
  const subject = current.isRequested ? "the interface's" : "the network's";
  const message = `the guest's NIC was created with an MTU of ${String(guestMtu)}, and ${subject} MTU is ${String(current.mtu)} now; ${advice} remove the interface and add it again, or restart the VM`;
  return { reason: "MtuDiffers", message };
}

/** Describes a requested MTU that exceeds the pod NIC's MTU. Both MTUs are in bytes. */
export function mtuReduced(requested: number, available: number): ReasonMessage<"MtuReduced"> {
  const message = `mtu of the interface is ${String(requested)}, but its pod NIC has an MTU of ${String(available)}, so the guest's NIC has ${String(available)}; raise the network's MTU, or lower mtu`;
  return { reason: "MtuReduced", message };
}

export function addressesPartlyServed(
  omissions: readonly string[],
): ReasonMessage<"AddressesPartlyServed"> {
  return { reason: "AddressesPartlyServed", message: omissions.join("; ") };
}

/** Describes an invalid network name. Such a name exists only if Patchbay's admission was not active. */
export function networkNameInvalid(networkName: string): ReasonMessage {
  const message = `"${networkName}" is not a valid name of a NetworkAttachmentDefinition`;
  return { reason: "NetworkInvalid", message };
}

/** Describes a NIC whose assigned MAC differs from the requested MAC. Networks that filter by MAC drop its frames. */
export function macNotAssigned(
  networkName: string,
  requested: string,
  assigned: string,
): ReasonMessage<"RequestNotMet"> {
  const message = `network ${networkName} assigned MAC ${assigned} instead of the requested ${requested}; unplug the interface and plug it again without macAddress, or use a network that accepts it`;
  return { reason: "RequestNotMet", message };
}

const CLAIM_SUPPORT_ADVICE =
  "if that does not help, the cluster does not support resource claims (resource.k8s.io/v1)";

export function claimNotHeld(claimName: string): ReasonMessage<"ClaimNotHeld"> {
  const message = `the launcher pod was started without resource claim ${claimName}, and a pod's claims cannot change while it runs; restart the VM; ${CLAIM_SUPPORT_ADVICE}`;
  return { reason: "ClaimNotHeld", message };
}

export function claimNotAllocated(
  claim: string,
  requestName: string,
): ReasonMessage<"ClaimNotAllocated"> {
  const message = `ResourceClaim ${claim} has no allocated device for request ${requestName}; check that the claim exists, that it has this request, and that a driver of its device class runs`;
  return { reason: "ClaimNotAllocated", message };
}

export function deviceNotReported(
  claim: string,
  driver: string,
): ReasonMessage<"DeviceNotReported"> {
  const message = `driver ${driver} has not reported the device's interface in status.devices[].networkData of ResourceClaim ${claim}; see the driver's log, or use a driver of network devices`;
  return { reason: "DeviceNotReported", message };
}

/** Describes a pod whose primary NIC is not on the network that its annotation names. */
export function defaultNetworkIgnored(
  networkName: string,
  actual: string | undefined,
): ReasonMessage<"DefaultNetworkIgnored"> {
  const message = `the pod's primary NIC is on ${actual === undefined ? "another network" : `network ${actual}`} instead of ${networkName}, because no component of its node reads the annotation ${names.DEFAULT_NETWORK_ANNOTATION}`;
  return { reason: "DefaultNetworkIgnored", message };
}

export function annotationInvalid(why: string): ReasonMessage<"AnnotationInvalid"> {
  const message = `the networks annotation cannot be parsed: ${why}`;
  return { reason: "AnnotationInvalid", message };
}

export const HOST_NETWORK: ReasonMessage<"HostNetwork"> = {
  reason: "HostNetwork",
  message: "the pod uses its node's network; no other network can be attached to it",
};

export function duplicateInterface(
  name: string,
  omissions: string,
): ReasonMessage<"DuplicateInterface"> {
  const message = `interface ${name} is requested twice; ${omissions} is ignored`;
  return { reason: "DuplicateInterface", message };
}

export function interfaceNameTaken(
  name: string,
  holder: string,
): ReasonMessage<"InterfaceNameTaken"> {
  const message = `interface ${name} belongs to ${holder} according to the pod's network-status, and was not created for this annotation; choose another interface name, or none`;
  return { reason: "InterfaceNameTaken", message };
}

export function interfaceAttachedElsewhere(
  name: string,
  network: string,
): ReasonMessage<"InterfaceNameTaken"> {
  const message = `interface ${name} of ${network} was attached by another program according to the pod's network-status, and net-agent in mode alone does not change it; run net-agent with --mode=multus if Multus also attaches networks`;
  return { reason: "InterfaceNameTaken", message };
}

/** Describes changes of an annotation element after its interface was attached. net-agent does not apply such changes. */
export function attributesFixed(
  name: string,
  changedNames: readonly string[],
): ReasonMessage<"AttributesFixed"> {
  const message = `interface ${name} was attached with different ${changedNames.join(", ")} and is not changed; unplug it and plug it again to apply the change`;
  return { reason: "AttributesFixed", message };
}

/** Describes an edited NetworkAttachmentDefinition. NICs that were attached before the edit do not change. */
export function networkChanged(
  network: string,
  fields: readonly string[],
): ReasonMessage<"NetworkChanged"> {
  const named = fields.slice(0, NAMED_FIELDS_MAX).join(", ");
  const more = fields.length > NAMED_FIELDS_MAX ? ", ..." : "";
  const message = `the definition of ${network} was changed after this NIC was attached: ${named}${more}; unplug the NIC and plug it again, or swap its network, to apply the change`;
  return { reason: "NetworkChanged", message };
}

/** Describes why a network does not retain the addresses of a NIC. */
export function addressNotClaimed(
  network: string,
  cause: string,
): ReasonMessage<"AddressNotClaimed"> {
  const message = `network ${network} offers persistent addresses, but the NIC has no IPAMClaim: ${cause}; the addresses may change at the next start`;
  return { reason: "AddressNotClaimed", message };
}

/** Describes a network that ignored the addresses that a NIC with a claim requests. */
export function requestNotClaimed(
  network: string,
  requested: readonly string[],
  assigned: readonly string[],
): ReasonMessage<"AddressNotClaimed"> {
  const current = assigned.length === 0 ? "no address" : assigned.join(", ");
  const message = `network ${network} assigned ${current} instead of ${requested.join(", ")}, which annotation ${names.REQUESTED_ADDRESSES_ANNOTATION} requests`;
  return { reason: "AddressNotClaimed", message };
}

/** Describes a requested network swap in a launcher of KubeVirt, where only a migration of the VM can swap the network. */
export function swapNeedsMigration(
  name: string,
  { from, to }: { readonly from: string; readonly to: string },
): ReasonMessage<"AttributesFixed"> {
  const message = `interface ${name} stays on ${from}: KubeVirt does not connect a running guest to another network; migrate the VM, whose target pod gets ${to}`;
  return { reason: "AttributesFixed", message };
}

export function waitingForHooks(sidecars: readonly string[]): ReasonMessage<"WaitingForHooks"> & {
  readonly attempts: number;
} {
  const message = `the guest starts when these hooks have replied: ${sidecars.join(", ")}`;
  return { reason: "WaitingForHooks", message, attempts: 0 };
}
