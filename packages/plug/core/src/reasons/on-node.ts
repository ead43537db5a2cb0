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
    ...WARNED,
    phases: "`PodAttaching`, `Wiring`",
    from: "net-agent, virt-handler",
    meaning: "the pod's NIC is of a kind that cannot carry the guest's MAC address (ipvlan)",
    who: "user",
    advice: "use a network of plugin bridge, macvlan or ptp for VMs",
  },
  PodInterfaceMissing: {
    ...WIRING,
    meaning: "CNI reported the interface, but the pod's network namespace does not have it",
    who: "administrator",
  },
  LinksRestless: {
    ...WIRING,
    meaning:
      "the links were made ten times and something, perhaps the launcher, keeps changing them; they are now made every 10 s",
    who: "whoever changes the links",
  },
  WiringFailed: {
    ...WIRING,
    meaning: "the kernel refused a change to the links",
    who: "administrator",
  },
  AddressesNotServed: {
    ...WARNED,
    phases: "`Attaching`, `Ready`",
    meaning: "the DHCP server that gives the guest its addresses is not running",
    who: "administrator: virt-handler's log has the server's messages",
  },
  AddressesPartlyServed: {
    ...WARNED,
    phases: "`Ready`",
    meaning:
      "the DHCP server cannot give the guest everything that its network or its VM names: a second IPv4 address, or what does not fit into an option of 255 bytes; the rest is served",
    who: "user: shorten what the message names, or set it in the guest",
  },
  NoFreePciePort: {
    ...WARNED,
    phases: "`Pending`; `Attaching` if the port was taken in the meantime",
    meaning: "the VM has no free PCIe port, or no free interrupt vector; nothing is made",
    who: "user: unplug an interface",
    advice:
      "unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts; the interface is plugged as soon as a port is free",
  },
  ModelNeedsIoPorts: {
    ...WARNED,
    phases: "`Pending`",
    meaning: "the model needs I/O ports, which ports for hot-plug do not have; nothing is made",
    who: "user: use virtio, or restart the VM",
  },
  BindingNotSupported: {
    ...WARNED,
    phases: "`Pending` and later",
    meaning: "Patchbay does not support this binding; nothing is made",
    who: "user: use bridge",
  },
  FieldNotSupported: {
    ...WARNED,
    phases: "`Pending` and later",
    meaning: "the interface sets a field that Patchbay does not support; nothing is made",
    who: "user: leave the field out",
  },
  PciAddressInUse: {
    ...ATTACHING,
    meaning: "the requested PCI address is in use or does not belong to a port",
    who: "user",
    advice: "choose another pciAddress, or none",
  },
  TapRefused: {
    ...ATTACHING,
    meaning: "QEMU cannot use the tap: it is gone, in use, or has a different number of queues",
    who: "administrator",
    advice: "remove the interface and add it again, which creates a new tap",
  },
  TapReplaced: {
    ...ATTACHING,
    meaning:
      "the tap was deleted while QEMU used it; the guest is asked to let go of the device, and then gets it back",
    who: "whoever deleted it",
  },
  TapLost: {
    ...WARNED,
    phases: ON_DEVICE,
    meaning:
      "the tap was deleted while QEMU used it; QEMU after 7.2 aborts when such a device is removed or reset, so the device stays, without a network",
    who: "user: restart the VM",
    advice: "restart the VM; until then do not reboot the guest from within",
  },
  MemoryNotShared: {
    ...WARNED,
    phases: "`Wiring`, `Attaching`",
    meaning:
      "the guest's memory is not shared with other processes of its node, which vhost-user needs; nothing is plugged",
    who: "user: restart the VM",
  },
  InterruptVectors: {
    ...WARNED,
    phases: "`Wiring`, `Attaching`",
    meaning:
      "the guest is emulated and was not started for vhost-user NICs: QEMU would crash; nothing is plugged",
    who: "user: restart the VM",
  },
  BackendMissing: {
    ...WIRING,
    meaning:
      "there is no socket where the network's plugin said it is: the dataplane does not run. A device that is there stays in the guest, and gets no frames",
    who: "administrator: start the dataplane",
  },
  BackendRefused: {
    ...WIRING,
    meaning:
      "the socket that the network's plugin named cannot be used: in another place, of another kind, made by the launcher itself; or QEMU would have to listen",
    who: "administrator: the network's plugin and the dataplane",
  },
  PortSecurityNotKept: {
    ...WARNED,
    phases: "`Wiring`",
    meaning:
      "the cluster enforces portSecurity, which is not possible for vhost-user; nothing is plugged",
    who: "administrator, or user: use another binding",
  },
  BackendReplaced: {
    ...ATTACHING,
    meaning:
      "the dataplane has made its socket anew; the guest is asked to let go of the device, and then gets it back",
    who: "nobody: it ends by itself",
  },
  AttachFailed: {
    ...ATTACHING,
    meaning: "libvirt refused the device; the message is libvirt's own",
    who: "administrator",
  },
  LinkStateFailed: {
    ...WARNED,
    phases: "`Ready`",
    meaning:
      "libvirt refused to set the link up or down (`state` of the interface); the NIC stays plugged",
    who: "administrator",
  },
  SwitchFailed: {
    ...WARNED,
    phases: "`Switching`",
    meaning:
      "the tap could not be moved to the other network's bridge; the NIC stays on its old network",
    who: "administrator",
  },
  MtuDiffers: {
    ...WARNED,
    phases: "`Ready`",
    meaning:
      "the network's MTU differs from the one the guest's NIC was created with: the MTU was changed, or there was a network swap",
    who: "user",
  },
  WaitingForGuest: {
    ...UNTOLD,
    phases: DETACHING,
    meaning: "the guest has been asked once or twice, or is paused",
    who: "the guest",
    advice: "the guest has not let go of the device yet",
  },
  GuestRefused: {
    ...WARNED,
    phases: DETACHING,
    meaning:
      "the guest was asked three times or more and keeps the device, or libvirt reports that it refused; it is asked again after pauses of 10 s to a minute",
    who: "whoever owns the guest",
  },
  DetachFailed: {
    ...WARNED,
    phases: DETACHING,
    meaning: "libvirt refused to ask the guest; the message is libvirt's own",
    who: "administrator",
  },
  DomainBusy: {
    ...ENDS_BY_ITSELF,
    phases: ON_DEVICE,
    meaning: "another operation (a save, a dump) holds the domain; libvirt waits 30 s for it",
    who: "nobody: it ends by itself",
    advice: "another operation is using the VM; the change is tried again until that ends",
  },
  WaitingForMigration: {
    ...ENDS_BY_ITSELF,
    phases: ON_DEVICE,
    meaning: "the VM is being migrated; nothing about its NICs is changed until that has ended",
    who: "nobody: it ends by itself",
    advice: "the VM is being migrated; the change is tried again until that ends",
  },
  DeviceUnsupported: {
    ...WARNED,
    phases: ON_DEVICE,
    meaning: "libvirt or QEMU does not support this operation on this device",
    who: "user",
    advice: "change the interface (its model, for example) or restart the VM",
  },
  DeviceNameTaken: {
    ...WARNED,
    phases: ON_DEVICE,
    meaning: "the guest has another device with that alias",
    who: "user: choose another name",
    advice: "remove the interface and add it under another name, or restart the VM",
  },
  DomainNotRunning: {
    ...ENDS_BY_ITSELF,
    phases: ON_DEVICE,
    meaning: "the guest ended in the meantime",
    who: "nobody: the next start",
    advice: "the change is made when the VM runs again",
  },
  DomainMissing: {
    ...ENDS_BY_ITSELF,
    phases: ON_DEVICE,
    meaning: "the launcher's libvirt no longer has the domain",
    who: "nobody: the next start",
    advice:
      "the guest has ended or moved to another node; the change is made where the VM runs next",
  },
  UnwiringFailed: {
    ...WARNED,
    phases: "`Unwiring`",
    meaning: "the kernel refused a change to the links",
    who: "administrator",
  },
  LibvirtTimedOut: {
    ...WARNED,
    phases: "any phase of virt-handler; the VM as a whole",
    meaning: "libvirt did not answer within 40 s; the connection was closed",
    who: "administrator",
    advice: "libvirt or QEMU hangs; the call is tried again; restart the VM if this persists",
  },
  LauncherUnreachable: {
    ...WARNED,
    phases: "any phase of virt-handler; the VM as a whole",
    meaning:
      "the launcher's libvirt is not running or refuses connections; links and device are shown as last seen",
    who: "administrator",
    advice: "the connection is tried again; if this persists, look at the launcher pod and its log",
  },
  RuntimeUnavailable: {
    ...WARNED,
    phases: "`PodAttaching`; any phase of virt-handler; the VM as a whole",
    meaning:
      "the container runtime did not say where the pod is (`CRI_UNAVAILABLE`); links and device are shown as last seen",
    who: "administrator",
    from: "net-agent, virt-handler",
    next: "the node's container runtime answers; it is asked again and again",
    advice:
      "the call is tried again; if this persists, check that the node's container runtime is running and that --cri-endpoint names it",
  },
  GuestNotStarted: {
    ...WARNED,
    phases: "none: the VM as a whole",
    meaning:
      "libvirt could not define or start the domain (the kernel is not in the image, for example); the message is libvirt's own",
    who: "user",
  },
  WaitingForHooks: {
    ...UNTOLD,
    phases: "none: the VM as a whole",
    meaning: "the hooks of the VM (sidecars of its launcher) are being asked for its domain",
    who: "the hooks",
  },
  HookFailed: {
    ...WARNED,
    phases: "none: the VM as a whole",
    meaning:
      "a hook of the VM does not listen, does not answer in time, or fails; the guest is not started without it",
    who: "user",
    advice:
      "the log of the hook's container in the launcher pod says more; it is asked again, and a restart of the VM asks at once",
  },
  HookAnswerRefused: {
    ...WARNED,
    phases: "none: the VM as a whole",
    meaning:
      "a hook of the VM changes what a hook may not change, answers what is no domain, or answers differently each time",
    who: "user: correct the hook",
    advice:
      "correct the hook; what it may change is in docs/design/hooks.md; a restart of the VM asks it at once",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;
