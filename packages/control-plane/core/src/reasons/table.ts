// SPDX-License-Identifier: Apache-2.0
// All reasons why an interface or a guest makes no progress: meaning, who acts next, event and advice.

/** Why an interface or a guest makes no progress. */
export interface ReasonEntry {
  /** Phases that report the reason, for the reference. */
  readonly phases: string;
  readonly meaning: string;
  readonly who: string;
  readonly from: "net-agent" | "virt-controller" | "virt-handler" | "net-agent, virt-handler";
  /** The event recorded once on the VM or else the VMI: Normal if the condition ends by itself. */
  readonly event: "Warning" | "Normal" | "none";
  /** What must happen first, if it is not the current phase's own step. */
  readonly next?: string;
  /** What the user can do. Appended to error messages; `{network}` is filled in. */
  readonly advice?: string;
}

/** virt-handler records the event on the VMI when the status reports the reason. */
const POD_ATTACHING = { phases: "`PodAttaching`", from: "net-agent", event: "Warning" } as const;

/** Problems of the annotation on any pod, not only on a launcher. */
const POD_ANNOTATION = {
  phases: "none: in the pod's annotation only",
  who: "whoever wrote the annotation",
  from: "net-agent",
  event: "none",
} as const;

const REASONS_IN_POD = {
  NodeUnresponsive: {
    phases: "`Pending`; the VM as a whole",
    from: "virt-controller",
    event: "none",
    meaning:
      "the node of the VM does not answer, so that nothing can be attached, nor is it known whether the guest runs; the phase of the VMI is `Unknown`",
    who: "administrator",
    next: "the node answers, or is deleted",
  },
  NetworkNotFound: {
    ...POD_ATTACHING,
    meaning:
      "the NetworkAttachmentDefinition does not exist; the attachment is tried again when it is created",
    who: "user",
    advice:
      "create it, or name another one; the interface is attached as soon as the definition exists",
  },
  DefinitionFileMissing: {
    ...POD_ATTACHING,
    meaning:
      "the NetworkAttachmentDefinition has no configuration, and no file of the node defines a network of its name",
    who: "user, administrator",
    advice:
      "write the configuration into spec.config of NetworkAttachmentDefinition {network}, or have an administrator put a .conf, .json or .conflist file with that name into the directory on every node; the attachment is tried again",
  },
  NetworkForbidden: {
    ...POD_ATTACHING,
    meaning: "the network is in another namespace, and the node isolates namespaces",
    who: "user, administrator",
    advice: "use a network of the pod's own namespace or of namespace default",
  },
  DefinitionForbidden: {
    ...POD_ATTACHING,
    meaning:
      "the network's definition names a plugin, a link, a bridge, addresses or a path of the node that definitions of its namespace may not name, or names something in a spelling that plugins take for another",
    who: "user, administrator",
    advice:
      "change spec.config of NetworkAttachmentDefinition {network}, or have an administrator define the network in namespace default, or allow it by the flag of net-agent that is named{setting}",
  },
  DefinitionTolerated: {
    phases: "none: of the definition only",
    from: "net-agent",
    event: "none",
    meaning:
      "net-agent attaches the network and only warns: with `--tenant-policy-mode enforce` it would refuse it as `DefinitionForbidden`",
    who: "administrator",
    advice:
      "before you set --tenant-policy-mode enforce, change spec.config of NetworkAttachmentDefinition {network}, or define the network in namespace default, or allow it by the flag of net-agent that is named{setting}",
  },
  NetworkInvalid: {
    ...POD_ATTACHING,
    meaning: "the CNI configuration or its name is invalid",
    who: "user",
    advice:
      "correct spec.config of NetworkAttachmentDefinition {network}; the attachment is tried again as soon as it is changed",
  },
  AddressesExhausted: {
    ...POD_ATTACHING,
    meaning: "every address in the network's range is in use",
    who: "user",
    advice:
      "every address of network {network} is in use: unplug an interface from it, or enlarge the range in spec.config of its NetworkAttachmentDefinition; the attachment is tried again",
  },
  PluginMissing: {
    ...POD_ATTACHING,
    meaning: "a plugin that the network's definition names, or its IPAM plugin, is not on the node",
    who: "user, administrator",
    advice:
      "correct the name in spec.config of NetworkAttachmentDefinition {network}, or have an administrator install the plugin on the node; the attachment is tried again",
  },
  NodeLinkUnfit: {
    ...POD_ATTACHING,
    meaning:
      "a link that the network's definition names is not on the node, or is no bridge where one is needed",
    who: "user, administrator",
    advice:
      "name another link in spec.config of NetworkAttachmentDefinition {network}, or have an administrator create it on the node; the attachment is tried again",
  },
  VlanUnsupported: {
    ...POD_ATTACHING,
    meaning:
      "the network needs VLAN filtering on bridges, which the node's kernel does not support",
    who: "user, administrator",
    advice:
      "use plugin vlan, or a bridge on a VLAN of the node, in spec.config of NetworkAttachmentDefinition {network}, or have an administrator install a kernel with CONFIG_BRIDGE_VLAN_FILTERING",
  },
  NetworkNotOnNode: {
    ...POD_ATTACHING,
    from: "virt-controller",
    meaning:
      "the node has said in the status of the NetworkAttachmentDefinition that it cannot make interfaces of it, so that nothing is asked for; the message names the nodes that have it",
    who: "user, administrator",
    next: "the node has what the network needs, or the VM is started on one that has",
  },
  RequestInvalid: {
    ...POD_ATTACHING,
    meaning:
      "a value that is requested (MAC, addresses, ports, bandwidth, gateways, device) is malformed, or cannot be had by this pod; the message has the fields",
    who: "user",
    advice:
      "correct the fields that are named in the element of the pod's annotation; of a VM, remove the interface and add it again with other values, or with none",
  },
  RequestNotMet: {
    ...POD_ATTACHING,
    meaning:
      "the network did not give the MAC, the address or the default route that was requested, or no plugin of it takes the request; the attachment was undone",
    who: "administrator",
  },
  NoDevice: {
    ...POD_ATTACHING,
    meaning:
      "the network's definition names a resource (`k8s.v1.cni.cncf.io/resourceName`), or the request a device, and the pod has no device of it that is free; or the node's kubelet does not say which devices the pod has",
    who: "user, administrator",
    advice:
      "a container must ask for one device of the resource for each attachment, in resources.limits when the pod is created; the attachment is tried again when another one of the pod is removed, and while the kubelet does not answer",
  },
  InterfaceNameTaken: {
    ...POD_ATTACHING,
    meaning:
      "the pod already has an interface of that name, or its status gives the name to another network",
    who: "administrator",
  },
  CniFailed: {
    ...POD_ATTACHING,
    meaning: "the CNI plugin failed or did not finish; the message is the plugin's own",
    who: "administrator",
  },
  AnnotationInvalid: {
    ...POD_ANNOTATION,
    meaning:
      "the annotation cannot be parsed, is longer than 64 KiB or names more than 64 networks; nothing is changed",
  },
  HostNetwork: {
    ...POD_ANNOTATION,
    meaning: "the pod uses its node's network, where nothing is attached",
  },
  DuplicateInterface: {
    ...POD_ANNOTATION,
    meaning: "an interface name is requested twice; the first request counts",
  },
  AttributesFixed: {
    ...POD_ANNOTATION,
    meaning:
      "the element of an attached interface asks for another MAC, other addresses, another default route, bandwidth or the like than it was attached with, or, in a launcher of KubeVirt, for another network; the interface stays as it is until it is unplugged and plugged again, or, in a launcher of KubeVirt, until KubeVirt migrates the VM",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;

const WARNING = { from: "virt-handler", event: "Warning" } as const;
const TRANSIENT = { from: "virt-handler", event: "Normal" } as const;
const NO_EVENT = { from: "virt-handler", event: "none" } as const;

const WIRING = { ...WARNING, phases: "`Wiring`" } as const;
const DEVICE_ATTACHING = { ...WARNING, phases: "`Attaching`" } as const;
const DETACHING = "`Detaching`";
const DEVICE_PHASES = "`Attaching`, `Detaching`";

const REASONS_ON_NODE = {
  NetworkCannotCarryVm: {
    ...WARNING,
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
    ...WARNING,
    phases: "`Attaching`, `Ready`",
    meaning: "the DHCP server that gives the guest its addresses is not running",
    who: "administrator: virt-handler's log has the server's messages",
  },
  AddressesPartlyServed: {
    ...WARNING,
    phases: "`Ready`",
    meaning:
      "the DHCP server cannot give the guest everything that its network or its VM names: a second IPv4 address, or what does not fit into an option of 255 bytes; the rest is served",
    who: "user: shorten what the message names, or set it in the guest",
  },
  NoFreePciePort: {
    ...WARNING,
    phases: "`Pending`; `Attaching` if the port was taken in the meantime",
    meaning: "the VM has no free PCIe port, or no free interrupt vector; nothing is made",
    who: "user: unplug an interface",
    advice:
      "unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts; the interface is plugged as soon as a port is free",
  },
  ModelNeedsIoPorts: {
    ...WARNING,
    phases: "`Pending`",
    meaning: "the model needs I/O ports, which ports for hot-plug do not have; nothing is made",
    who: "user: use virtio, or restart the VM",
  },
  BindingNotSupported: {
    ...WARNING,
    phases: "`Pending` and later",
    meaning: "Patchbay does not support this binding; nothing is made",
    who: "user: use bridge",
  },
  FieldNotSupported: {
    ...WARNING,
    phases: "`Pending` and later",
    meaning: "the interface sets a field that Patchbay does not support; nothing is made",
    who: "user: leave the field out",
  },
  PciAddressInUse: {
    ...DEVICE_ATTACHING,
    meaning: "the requested PCI address is in use or does not belong to a port",
    who: "user",
    advice: "choose another pciAddress, or none",
  },
  TapRefused: {
    ...DEVICE_ATTACHING,
    meaning: "QEMU cannot use the tap: it is gone, in use, or has a different number of queues",
    who: "administrator",
    advice: "remove the interface and add it again, which creates a new tap",
  },
  TapReplaced: {
    ...DEVICE_ATTACHING,
    meaning:
      "the tap was deleted while QEMU used it; the guest is asked to let go of the device, and then gets it back",
    who: "whoever deleted it",
  },
  TapLost: {
    ...WARNING,
    phases: DEVICE_PHASES,
    meaning:
      "the tap was deleted while QEMU used it; QEMU 10.0 aborts when such a device is removed or reset, so the device stays, without a network",
    who: "user: restart the VM",
    advice: "restart the VM; until then do not reboot the guest from within",
  },
  MemoryNotShared: {
    ...WARNING,
    phases: "`Wiring`, `Attaching`",
    meaning:
      "the guest's memory is not shared with other processes of its node, which vhost-user needs; nothing is plugged",
    who: "user: restart the VM",
  },
  InterruptVectors: {
    ...WARNING,
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
    ...WARNING,
    phases: "`Wiring`",
    meaning:
      "the cluster enforces portSecurity, which is not possible for vhost-user; nothing is plugged",
    who: "administrator, or user: use another binding",
  },
  BackendReplaced: {
    ...DEVICE_ATTACHING,
    meaning:
      "the dataplane has made its socket anew; the guest is asked to let go of the device, and then gets it back",
    who: "nobody: it ends by itself",
  },
  AttachFailed: {
    ...DEVICE_ATTACHING,
    meaning: "libvirt refused the device; the message is libvirt's own",
    who: "administrator",
  },
  LinkStateFailed: {
    ...WARNING,
    phases: "`Ready`",
    meaning:
      "libvirt refused to set the link up or down (`state` of the interface); the NIC stays plugged",
    who: "administrator",
  },
  SwitchFailed: {
    ...WARNING,
    phases: "`Switching`",
    meaning:
      "the tap could not be moved to the other network's bridge; the NIC stays on its old network",
    who: "administrator",
  },
  MtuDiffers: {
    ...WARNING,
    phases: "`Ready`",
    meaning:
      "the network's MTU differs from the one the guest's NIC was created with: the MTU was changed, or there was a network swap",
    who: "user",
  },
  WaitingForGuest: {
    ...NO_EVENT,
    phases: DETACHING,
    meaning: "the guest has been asked once or twice, or is paused",
    who: "the guest",
    advice: "the guest has not let go of the device yet",
  },
  GuestRefused: {
    ...WARNING,
    phases: DETACHING,
    meaning:
      "the guest was asked three times or more and keeps the device, or libvirt reports that it refused; it is asked again after pauses of 10 s to a minute",
    who: "whoever owns the guest",
  },
  DetachFailed: {
    ...WARNING,
    phases: DETACHING,
    meaning: "libvirt refused to ask the guest; the message is libvirt's own",
    who: "administrator",
  },
  DomainBusy: {
    ...TRANSIENT,
    phases: DEVICE_PHASES,
    meaning: "another operation (a save, a dump) holds the domain; libvirt waits 30 s for it",
    who: "nobody: it ends by itself",
    advice: "another operation is using the VM; the change is tried again until that ends",
  },
  WaitingForMigration: {
    ...TRANSIENT,
    phases: DEVICE_PHASES,
    meaning: "the VM is being migrated; nothing about its NICs is changed until that has ended",
    who: "nobody: it ends by itself",
    advice: "the VM is being migrated; the change is tried again until that ends",
  },
  DeviceUnsupported: {
    ...WARNING,
    phases: DEVICE_PHASES,
    meaning: "libvirt or QEMU does not support this operation on this device",
    who: "user",
    advice: "change the interface (its model, for example) or restart the VM",
  },
  DeviceNameTaken: {
    ...WARNING,
    phases: DEVICE_PHASES,
    meaning: "the guest has another device with that alias",
    who: "user: choose another name",
    advice: "remove the interface and add it under another name, or restart the VM",
  },
  DomainNotRunning: {
    ...TRANSIENT,
    phases: DEVICE_PHASES,
    meaning: "the guest ended in the meantime",
    who: "nobody: the next start",
    advice: "the change is made when the VM runs again",
  },
  DomainMissing: {
    ...TRANSIENT,
    phases: DEVICE_PHASES,
    meaning: "the launcher's libvirt no longer has the domain",
    who: "nobody: the next start",
    advice:
      "the guest has ended or moved to another node; the change is made where the VM runs next",
  },
  UnwiringFailed: {
    ...WARNING,
    phases: "`Unwiring`",
    meaning: "the kernel refused a change to the links",
    who: "administrator",
  },
  LibvirtTimedOut: {
    ...WARNING,
    phases: "any phase of virt-handler; the VM as a whole",
    meaning: "libvirt did not answer within 40 s; the connection was closed",
    who: "administrator",
    advice: "libvirt or QEMU hangs; the call is tried again; restart the VM if this persists",
  },
  LauncherUnreachable: {
    ...WARNING,
    phases: "any phase of virt-handler; the VM as a whole",
    meaning:
      "the launcher's libvirt is not running or refuses connections; links and device are shown as last seen",
    who: "administrator",
    advice: "the connection is tried again; if this persists, look at the launcher pod and its log",
  },
  RuntimeUnavailable: {
    ...WARNING,
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
    ...WARNING,
    phases: "none: the VM as a whole",
    meaning:
      "libvirt could not define or start the domain (the kernel is not in the image, for example); the message is libvirt's own",
    who: "user",
  },
  WaitingForHooks: {
    ...NO_EVENT,
    phases: "none: the VM as a whole",
    meaning: "the hooks of the VM (sidecars of its launcher) are being asked for its domain",
    who: "the hooks",
  },
  HookFailed: {
    ...WARNING,
    phases: "none: the VM as a whole",
    meaning:
      "a hook of the VM does not listen, does not answer in time, or fails; the guest is not started without it",
    who: "user",
    advice:
      "the log of the hook's container in the launcher pod says more; it is asked again, and a restart of the VM asks at once",
  },
  HookAnswerRefused: {
    ...WARNING,
    phases: "none: the VM as a whole",
    meaning:
      "a hook of the VM changes what a hook may not change, answers what is no domain, or answers differently each time",
    who: "user: correct the hook",
    advice:
      "correct the hook; what it may change is in docs/design/hooks.md; a restart of the VM asks it at once",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;

/** Source of `docs/reference/reasons.md`. */
export const REASONS = { ...REASONS_IN_POD, ...REASONS_ON_NODE } as const;

/** A stable name in CamelCase, for `hotplug.reason` and `status.hindrance`. */
export type Reason = keyof typeof REASONS;

function isReason(text: string): text is Reason {
  return Object.hasOwn(REASONS, text);
}

export function eventTypeOf(reason: string): "Warning" | "Normal" | undefined {
  const { event }: Pick<ReasonEntry, "event"> = isReason(reason)
    ? REASONS[reason]
    : { event: "Warning" };
  return event === "none" ? undefined : event;
}

export function whoCanHelp(reason: string | undefined): string | undefined {
  return reason === undefined || !isReason(reason) ? undefined : REASONS[reason].who;
}

export function nextStepFor(reason: string | undefined): string | undefined {
  if (reason === undefined || !isReason(reason)) return undefined;
  const entry: ReasonEntry = REASONS[reason];
  return entry.next;
}

export function findAdvice(reason: Reason): string | undefined {
  const entry: ReasonEntry = REASONS[reason];
  return entry.advice;
}
