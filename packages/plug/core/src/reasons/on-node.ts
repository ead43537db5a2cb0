// SPDX-License-Identifier: Apache-2.0
// Reasons for which the node does not plug or unplug a NIC, or start a guest.
import type { ReasonEntry } from "./reason.ts";

const WARNED = { from: "virt-handler", event: "Warning" } as const;
const ENDS_BY_ITSELF = { from: "virt-handler", event: "Normal" } as const;
const UNTOLD = { from: "virt-handler", event: "none" } as const;

const WIRING = { ...WARNED, phases: "`Wiring`" } as const;
const ATTACHING = { ...WARNED, phases: "`Attaching`" } as const;
const DETACHING = "`Detaching`";
const ON_DEVICE = "`Attaching`, `Detaching`";

/** In the order of the reference. */
export const REASONS_ON_NODE = {
  NetworkCannotCarryVm: {
    ...WIRING,
    meaning: "the pod NIC is of a kind that cannot carry a guest's MAC (ipvlan)",
    who: "user",
  },
  PodInterfaceMissing: {
    ...WIRING,
    meaning: "CNI reported the NIC, and it is not in the namespace",
    who: "administrator",
  },
  LinksRestless: {
    ...WIRING,
    meaning:
      "the links were made ten times and somebody, the launcher perhaps, spoils them again; they are made every 10 s",
    who: "whoever changes them",
  },
  WiringFailed: {
    ...WIRING,
    meaning: "the kernel refused a change of links",
    who: "administrator",
  },
  AddressesNotServed: {
    ...WARNED,
    phases: "`Attaching`, `Ready`",
    meaning: "the DHCP server that gives the guest the pod's addresses does not run",
    who: "administrator: the log of virt-handler has what it said",
  },
  NoFreePciePort: {
    ...WARNED,
    phases: "`Pending`; `Attaching` where the port was lost on the way",
    meaning: "no PCIe port of the VM is free, or no interrupt vector; nothing is made",
    who: "user: unplug one",
    advice:
      "unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts; a free port is used at once",
  },
  ModelNeedsIoPorts: {
    ...WARNED,
    phases: "`Pending`",
    meaning: "ports for hot-plug have no I/O ports, which the model needs; nothing is made",
    who: "user: virtio, restart",
  },
  BindingNotSupported: {
    ...WARNED,
    phases: "`Pending` and later",
    meaning: "the binding is one that Patchbay does not build; nothing is made",
    who: "user: bridge",
  },
  FieldNotSupported: {
    ...WARNED,
    phases: "`Pending` and later",
    meaning: "the interface has a field that is not built; nothing is made",
    who: "user: leave it out",
  },
  PciAddressInUse: {
    ...ATTACHING,
    meaning: "the address that is asked for is in use, or is none of a port",
    who: "user",
    advice: "ask for another pciAddress, or for none",
  },
  TapRefused: {
    ...ATTACHING,
    meaning: "QEMU cannot use the tap: it is gone, in use, or has other queues",
    who: "administrator",
    advice: "remove the interface and add it again, which makes the tap anew",
  },
  TapReplaced: {
    ...ATTACHING,
    meaning:
      "the tap was deleted under QEMU; the guest is asked to let go of the device and gets it again",
    who: "whoever deleted it",
  },
  AttachFailed: {
    ...ATTACHING,
    meaning: "libvirt refused the device; the message is its own",
    who: "administrator",
  },
  LinkStateFailed: {
    ...WARNED,
    phases: "`Ready`",
    meaning: "libvirt refused to set the link up or down (`state` of the iface); the NIC is there",
    who: "administrator",
  },
  SwitchFailed: {
    ...WARNED,
    phases: "`Switching`",
    meaning:
      "the tap could not be moved to the other network's bridge; the NIC is on the network on which it was",
    who: "administrator",
  },
  MtuDiffers: {
    ...WARNED,
    phases: "`Ready`",
    meaning:
      "the network has another MTU than the guest's NIC was made for: the network's was changed, or the NIC has moved to another network",
    who: "user",
  },
  WaitingForGuest: {
    ...UNTOLD,
    phases: DETACHING,
    meaning: "the guest was asked once or twice, or is paused",
    who: "the guest",
    advice: "the guest was asked to let go of the device and has not answered yet",
  },
  GuestRefused: {
    ...WARNED,
    phases: DETACHING,
    meaning:
      "the guest was asked three times or more and keeps the device, or libvirt says that it refused; it is asked again after pauses of 10 s to a minute",
    who: "whoever owns the guest",
  },
  DetachFailed: {
    ...WARNED,
    phases: DETACHING,
    meaning: "libvirt refused to ask; the message is its own",
    who: "administrator",
  },
  DomainBusy: {
    ...ENDS_BY_ITSELF,
    phases: ON_DEVICE,
    meaning: "another operation (a save, a dump) holds the domain; libvirt waits 30 s for it",
    who: "nobody: it ends",
    advice: "another operation on the VM holds it; it is tried again until that ends",
  },
  WaitingForMigration: {
    ...ENDS_BY_ITSELF,
    phases: ON_DEVICE,
    meaning: "the domain is being migrated; libvirt waits 30 s for it",
    who: "nobody: it ends",
    advice: "the VM is being migrated; it is tried again until that ends",
  },
  DeviceUnsupported: {
    ...WARNED,
    phases: ON_DEVICE,
    meaning: "libvirt or QEMU cannot do that with such a device",
    who: "user",
    advice: "change the interface (its model, for example) or restart the VM",
  },
  DeviceNameTaken: {
    ...WARNED,
    phases: ON_DEVICE,
    meaning: "the guest has another device of that alias",
    who: "user: another name",
    advice: "remove the interface and add it under another name, or restart the VM",
  },
  DomainNotRunning: {
    ...ENDS_BY_ITSELF,
    phases: ON_DEVICE,
    meaning: "the guest has ended meanwhile",
    who: "nobody: the next start",
    advice: "it is done when the VM runs again",
  },
  DomainMissing: {
    ...ENDS_BY_ITSELF,
    phases: ON_DEVICE,
    meaning: "the launcher's libvirt has no such domain any more",
    who: "nobody: the next start",
    advice: "the guest has ended or moved to another node; it is done where the VM runs next",
  },
  UnwiringFailed: {
    ...WARNED,
    phases: "`Unwiring`",
    meaning: "the kernel refused a change of links",
    who: "administrator",
  },
  LibvirtTimedOut: {
    ...WARNED,
    phases: "any of virt-handler; the VM as a whole",
    meaning: "libvirt did not answer in 40 s; the connection was given up",
    who: "administrator",
    advice: "libvirt or QEMU hangs: it is tried again; restart the VM if it stays so",
  },
  LauncherUnreachable: {
    ...WARNED,
    phases: "any of virt-handler; the VM as a whole",
    meaning:
      "the launcher's libvirt is not there or refuses connections; links and device are as last seen",
    who: "administrator",
    advice: "it is tried again; if it stays so, look at the launcher pod and its log",
  },
  RuntimeUnavailable: {
    ...WARNED,
    phases: "`PodAttaching`; any of virt-handler; the VM as a whole",
    meaning:
      "the node's container runtime does not tell where the pod is (`CRI_UNAVAILABLE`); links and device are as last seen",
    who: "administrator",
    from: "net-agent, virt-handler",
    next: "the container runtime of the node answers; it is asked again and again",
    advice:
      "it is tried again; if it stays so, see whether the runtime of the node runs, and whether --cri-endpoint names it",
  },
  GuestNotStarted: {
    ...WARNED,
    phases: "none: the VM as a whole",
    meaning:
      "libvirt does not define or start the domain; the message is its own (a kernel that is not in the image, for example)",
    who: "user",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;
