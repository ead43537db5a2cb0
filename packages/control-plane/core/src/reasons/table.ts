// SPDX-License-Identifier: Apache-2.0

/** Description of a reason why an interface or a guest makes no progress. */
export interface ReasonEntry {
  /** Phases in which the reason occurs, as text for docs/reference/reasons.md. */
  readonly phases: string;
  readonly meaning: string;
  readonly owner: string;
  readonly from: "net-agent" | "virt-controller" | "virt-handler" | "net-agent, virt-handler";
  /** Type of the event on the VM, or on a VMI without a VM. `Normal` means that no user action is required. */
  readonly event: "Warning" | "Normal" | "none";
  /** Event that ends the wait, as text for docs/reference/reasons.md. Unset if the next step of the current phase ends the wait. */
  readonly next?: string;
  /** Advice for the user, which is appended to error messages. `{network}` is replaced with the network's name. */
  readonly advice?: string;
}

/** Fields that most reasons for failed attachments share. */
const POD_ATTACHING = { phases: "`PodAttaching`", from: "net-agent", event: "Warning" } as const;

/** Fields of reasons that concern the annotation of any pod, including pods that are not launchers. */
const POD_ANNOTATION = {
  phases: "none: in the pod's annotation only",
  owner: "the author of the annotation",
  from: "net-agent",
  event: "none",
} as const;

/** Fields of reasons that concern devices of resource claims. */
const CLAIMED_NIC = {
  phases: "`PodAttaching`",
  from: "virt-controller",
  event: "Warning",
} as const;

const REASONS_IN_POD = {
  NodeUnresponsive: {
    phases: "`Pending`; the VM as a whole",
    from: "virt-controller",
    event: "none",
    meaning:
      "the node of the VM does not respond, so nothing can be attached, and it is unknown whether the guest runs; the phase of the VMI is `Unknown`",
    owner: "administrator",
    next: "the node responds again, or is deleted",
  },
  NetworkNotFound: {
    ...POD_ATTACHING,
    meaning:
      "the NetworkAttachmentDefinition does not exist; the attachment is retried when it is created",
    owner: "user",
    advice:
      "create it, or name another one; the interface is attached as soon as the definition exists",
  },
  DefinitionFileMissing: {
    ...POD_ATTACHING,
    meaning:
      "the NetworkAttachmentDefinition has no configuration, and no file of the node defines a network of its name",
    owner: "user, administrator",
    advice:
      "write the configuration into spec.config of NetworkAttachmentDefinition {network}, or have an administrator put a .conf, .json or .conflist file with that name into the directory on every node; the attachment is retried",
  },
  NetworkForbidden: {
    ...POD_ATTACHING,
    meaning: "the network is in another namespace, and the node isolates namespaces",
    owner: "user, administrator",
    advice: "use a network of the pod's own namespace or of namespace default",
  },
  DefinitionForbidden: {
    ...POD_ATTACHING,
    meaning:
      "the network's definition names a plugin, a link, a bridge, addresses or a path of the node that definitions of its namespace may not name, or uses an alias that plugins read as another name",
    owner: "user, administrator",
    advice:
      "change spec.config of NetworkAttachmentDefinition {network}, or have an administrator define the network in namespace default, or allow it by the flag of net-agent that is named{setting}",
  },
  DefinitionTolerated: {
    phases: "none: of the definition only",
    from: "net-agent",
    event: "none",
    meaning:
      "net-agent attaches the network and only warns: with `--tenant-policy-mode enforce` it would refuse it as `DefinitionForbidden`",
    owner: "administrator",
    advice:
      "before you set --tenant-policy-mode enforce, change spec.config of NetworkAttachmentDefinition {network}, or define the network in namespace default, or allow it by the flag of net-agent that is named{setting}",
  },
  DefinitionMembersIgnored: {
    phases: "none: of the definition only",
    from: "net-agent",
    event: "none",
    meaning:
      "the definition of a tenant sets `runtimeConfig`, `args` or `prevResult`, which net-agent does not pass to plugins",
    owner: "user, administrator",
    advice:
      "remove these members from spec.config of NetworkAttachmentDefinition {network}, request addresses and the like in the pod's annotation, or have an administrator define the network in namespace default",
  },
  RequestForbidden: {
    ...POD_ATTACHING,
    meaning:
      "the pod requests a port of the node, or an address, that pods of its namespace may not have",
    owner: "user, administrator",
    advice:
      "change the annotation of the pod, or have an administrator allow it by the flag of net-agent that is named{setting}",
  },
  NetworkInvalid: {
    ...POD_ATTACHING,
    meaning: "the CNI configuration or its name is invalid",
    owner: "user",
    advice:
      "correct spec.config of NetworkAttachmentDefinition {network}; the attachment is retried as soon as it is changed",
  },
  AddressesExhausted: {
    ...POD_ATTACHING,
    meaning: "every address in the network's range is in use",
    owner: "user",
    advice:
      "every address of network {network} is in use: unplug an interface from it, or enlarge the range in spec.config of its NetworkAttachmentDefinition; the attachment is retried",
  },
  PluginMissing: {
    ...POD_ATTACHING,
    meaning: "a plugin that the network's definition names, or its IPAM plugin, is not on the node",
    owner: "user, administrator",
    advice:
      "correct the name in spec.config of NetworkAttachmentDefinition {network}, or have an administrator install the plugin on the node; the attachment is retried",
  },
  NodeLinkUnfit: {
    ...POD_ATTACHING,
    meaning:
      "a link that the network's definition names is not on the node, or is no bridge where one is needed",
    owner: "user, administrator",
    advice:
      "name another link in spec.config of NetworkAttachmentDefinition {network}, or have an administrator create it on the node; the attachment is retried",
  },
  VlanUnsupported: {
    ...POD_ATTACHING,
    meaning:
      "the network needs VLAN filtering on bridges, which the node's kernel does not support",
    owner: "user, administrator",
    advice:
      "use plugin vlan, or a bridge on a VLAN of the node, in spec.config of NetworkAttachmentDefinition {network}, or have an administrator install a kernel with CONFIG_BRIDGE_VLAN_FILTERING",
  },
  NetworkNotOnNode: {
    ...POD_ATTACHING,
    from: "virt-controller",
    meaning:
      "the node reported in the status of the NetworkAttachmentDefinition that it cannot attach the network, so no attachment is requested; the message names the nodes that can",
    owner: "user, administrator",
    next: "the node has what the network needs, or the VM is started on one that has",
  },
  RequestInvalid: {
    ...POD_ATTACHING,
    meaning:
      "a value that is requested (MAC, addresses, ports, bandwidth, gateways, device) is malformed or not available to this pod; the message names the fields",
    owner: "user",
    advice:
      "correct the fields that are named in the element of the pod's annotation; of a VM, remove the interface and add it again with other values, or with none",
  },
  RequestNotMet: {
    ...POD_ATTACHING,
    meaning:
      "the network did not assign the requested MAC, address or default route, or none of its plugins supports the request; the attachment was undone, or, if only the MAC differs, the NIC is not plugged into the VM",
    owner: "administrator",
  },
  ClaimNotHeld: {
    ...CLAIMED_NIC,
    meaning:
      "the launcher pod was started without the resource claim of the NIC's network, and a pod's claims cannot change while it runs",
    owner: "user",
    next: "the VM is restarted",
  },
  ClaimNotAllocated: {
    ...CLAIMED_NIC,
    meaning: "the ResourceClaim has no allocated device for the request of the NIC's network",
    owner: "user, administrator",
    next: "a driver allocates a device",
  },
  DeviceNotReported: {
    ...CLAIMED_NIC,
    meaning:
      "the driver has not reported the link of the allocated device in the ResourceClaim's `status.devices[].networkData`",
    owner: "administrator",
    next: "the driver reports the device",
  },
  DefaultNetworkIgnored: {
    phases: "`PodAttaching`",
    from: "virt-controller",
    event: "Warning",
    meaning:
      "the pod's primary NIC is not on the network with `multus.default`, because nothing on the node reads the pod's annotation `v1.multus-cni.io/default-network`; the NIC is not plugged into the VM",
    owner: "administrator",
    next: "the VM is restarted on a node whose pods' networks Multus attaches, or net-agent with `--pod-creation`",
    advice:
      "install Multus, or let net-agent attach the networks of new pods (patchbay install --pod-creation), and restart the VM; or use pod: {}",
  },
  NoDevice: {
    ...POD_ATTACHING,
    meaning:
      "the network's definition names a resource (`k8s.v1.cni.cncf.io/resourceName`), or the request names a device, and the pod has no such free device; or the node's kubelet does not report the pod's devices",
    owner: "user, administrator",
    advice:
      "a container must request one device of the resource for each attachment, in resources.limits when the pod is created; the attachment is retried when another attachment of the pod is removed, and while the kubelet does not respond",
  },
  InterfaceNameTaken: {
    ...POD_ATTACHING,
    meaning:
      "the pod already has an interface of that name, or its status assigns the name to another network",
    owner: "administrator",
  },
  CniFailed: {
    ...POD_ATTACHING,
    meaning: "the CNI plugin failed or did not finish; the message is the plugin's own",
    owner: "administrator",
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
      "the element of an attached interface requests another MAC, other addresses, another default route or another bandwidth than at ADD, or, in a launcher of KubeVirt, for another network; the interface stays as it is until it is unplugged and plugged again, or, in a launcher of KubeVirt, until KubeVirt migrates the VM",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;

const WARNING_ON_NODE = { from: "virt-handler", event: "Warning" } as const;
const NORMAL_ON_NODE = { from: "virt-handler", event: "Normal" } as const;
const NO_EVENT_ON_NODE = { from: "virt-handler", event: "none" } as const;

const WIRING_WARNING = { ...WARNING_ON_NODE, phases: "`Wiring`" } as const;
const ATTACHING_WARNING = { ...WARNING_ON_NODE, phases: "`Attaching`" } as const;
const DETACHING_PHASE = "`Detaching`";
const DEVICE_PHASES = "`Attaching`, `Detaching`";

const REASONS_ON_NODE = {
  NetworkCannotCarryVm: {
    ...WARNING_ON_NODE,
    phases: "`PodAttaching`, `Wiring`",
    from: "net-agent, virt-handler",
    meaning: "the pod's NIC is of a kind that cannot carry the guest's MAC address (ipvlan)",
    owner: "user",
    advice: "use a network of plugin bridge, macvlan or ptp for VMs",
  },
  PodInterfaceMissing: {
    ...WIRING_WARNING,
    meaning: "CNI reported the interface, but the pod's network namespace does not have it",
    owner: "administrator",
  },
  PolicyFailed: {
    ...WARNING_ON_NODE,
    phases: "`Ready`",
    meaning:
      "the rules of a changed network policy could not be written; the earlier rules still apply, and the step is repeated",
    owner: "administrator",
  },
  PolicyNotEnforced: {
    ...WIRING_WARNING,
    meaning:
      "a NetworkPolicy or MultiNetworkPolicy selects the VM on this network, and Patchbay cannot filter its frames: another program creates the tap or the device of this binding, or a sidecar proxy hides the peers; nothing is plugged",
    owner: "user: use masquerade or bridge without a sidecar, or exclude the VM from the policy",
  },
  LinksRestless: {
    ...WIRING_WARNING,
    meaning:
      "the links were restored ten times, and another program, perhaps the launcher, changes them each time; they are now restored every 10 s",
    owner: "the program that changes the links",
  },
  WiringFailed: {
    ...WIRING_WARNING,
    meaning: "the kernel refused a change to the links",
    owner: "administrator",
  },
  AddressesNotServed: {
    ...WARNING_ON_NODE,
    phases: "`Attaching`, `Ready`",
    meaning: "the DHCP server that assigns the guest's addresses is not running",
    owner: "administrator: virt-handler's log has the server's messages",
  },
  AddressesPartlyServed: {
    ...WARNING_ON_NODE,
    phases: "`Ready`",
    meaning:
      "the DHCP server cannot serve all settings of the network and the VM, such as a second IPv4 address, or values that do not fit into an option of 255 bytes; all other settings are served",
    owner: "user: shorten what the message names, or set it in the guest",
  },
  NoFreePciePort: {
    ...WARNING_ON_NODE,
    phases: "`Pending`; `Attaching` if the port was taken in the meantime",
    meaning:
      "the VM has no free PCIe port, or no free interrupt vector; no link or device is created",
    owner: "user: unplug an interface",
    advice:
      "unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts; the interface is plugged as soon as a port is free",
  },
  ModelNeedsIoPorts: {
    ...WARNING_ON_NODE,
    phases: "`Pending`",
    meaning:
      "the model needs I/O ports, which hot-plug ports do not have; no link or device is created",
    owner: "user: use virtio, or restart the VM",
  },
  BindingNotSupported: {
    ...WARNING_ON_NODE,
    phases: "`Pending` and later",
    meaning: "Patchbay does not support this binding; no link or device is created",
    owner: "user: use bridge",
  },
  FieldNotSupported: {
    ...WARNING_ON_NODE,
    phases: "`Pending` and later",
    meaning:
      "the interface sets a field that Patchbay does not support; no link or device is created",
    owner: "user: leave the field out",
  },
  PciAddressInUse: {
    ...ATTACHING_WARNING,
    meaning: "the requested PCI address is in use or does not belong to a port",
    owner: "user",
    advice: "choose another pciAddress, or none",
  },
  TapRefused: {
    ...ATTACHING_WARNING,
    meaning:
      "QEMU cannot use the tap: it does not exist, is in use, or has a different number of queues",
    owner: "administrator",
    advice: "remove the interface and add it again, which creates a new tap",
  },
  TapReplaced: {
    ...ATTACHING_WARNING,
    meaning:
      "the tap was deleted while QEMU used it; the guest is requested to release the device, which is then plugged again",
    owner: "the program that deleted it",
  },
  TapLost: {
    ...WARNING_ON_NODE,
    phases: DEVICE_PHASES,
    meaning:
      "the tap was deleted while QEMU used it; QEMU 10.0 aborts when such a device is removed or reset, so the device stays, without a network",
    owner: "user: restart the VM",
    advice: "restart the VM; until then do not reboot the guest from within",
  },
  MemoryNotShared: {
    ...WARNING_ON_NODE,
    phases: "`Wiring`, `Attaching`",
    meaning:
      "the guest's memory is not shared with other processes of its node, which vhost-user needs; nothing is plugged",
    owner: "user: restart the VM",
  },
  InterruptVectors: {
    ...WARNING_ON_NODE,
    phases: "`Wiring`, `Attaching`",
    meaning:
      "the guest is emulated and was not started for vhost-user NICs: QEMU would crash; nothing is plugged",
    owner: "user: restart the VM",
  },
  BackendMissing: {
    ...WIRING_WARNING,
    meaning:
      "the socket that the network's plugin named does not exist, because the dataplane does not run; a plugged device stays in the guest and receives no frames",
    owner: "administrator: start the dataplane",
  },
  BackendRefused: {
    ...WIRING_WARNING,
    meaning:
      "the socket that the network's plugin named cannot be used: it is outside the allowed directory, of another kind or created by the launcher, or QEMU would have to listen",
    owner: "administrator: the network's plugin and the dataplane",
  },
  PortSecurityNotKept: {
    ...WARNING_ON_NODE,
    phases: "`Wiring`",
    meaning:
      "the cluster enforces portSecurity, which is not possible for vhost-user; nothing is plugged",
    owner: "administrator, or user: use another binding",
  },
  BackendReplaced: {
    ...ATTACHING_WARNING,
    meaning:
      "the dataplane recreated its socket; the guest is requested to release the device, which is then plugged again",
    owner: "no action: the operation ends by itself",
  },
  AttachFailed: {
    ...ATTACHING_WARNING,
    meaning: "libvirt refused the device; the message is libvirt's own",
    owner: "administrator",
  },
  LinkStateFailed: {
    ...WARNING_ON_NODE,
    phases: "`Ready`",
    meaning:
      "libvirt refused to set the link up or down (`state` of the interface); the NIC stays plugged",
    owner: "administrator",
  },
  SwitchFailed: {
    ...WARNING_ON_NODE,
    phases: "`Switching`",
    meaning:
      "the tap could not be moved to the other network's bridge; the NIC stays on its old network",
    owner: "administrator",
  },
  NetworkChanged: {
    ...WARNING_ON_NODE,
    phases: "`Ready`",
    meaning:
      "the network's definition was edited after the NIC was attached, and the NIC still has the former configuration; the message names what differs",
    owner: "user, administrator",
    next: "swap or replug to apply: the interface is set to another network, or is removed and added again",
    advice:
      "NICs do not follow edits of a definition; unplug the NIC and plug it again, swap its network, or restart the VM",
  },
  AddressNotClaimed: {
    ...WARNING_ON_NODE,
    phases: "`Ready`",
    meaning:
      "the network offers persistent addresses, but the NIC has no IPAMClaim, so the network may assign other addresses at the next start; or the network ignored the addresses that the NIC requests; the message has the cause",
    owner: "user, administrator",
    next: "the NIC is unplugged and plugged again, or the VM is restarted, when a claim can be used",
    advice:
      "remove the cause, then unplug the NIC and plug it again, or restart the VM; the NIC works until then",
  },
  MtuDiffers: {
    ...WARNING_ON_NODE,
    phases: "`Ready`",
    meaning:
      "the MTU of the network or of the interface differs from the one the guest's NIC was created with: it was changed, or there was a network swap",
    owner: "user",
  },
  MtuReduced: {
    ...WARNING_ON_NODE,
    phases: "`Ready`",
    meaning: "`mtu` of the interface exceeds the MTU of its pod NIC, which the guest's NIC has",
    owner: "user, administrator",
    advice: "raise the network's MTU, or lower `mtu` of the interface",
  },
  WaitingForGuest: {
    ...NO_EVENT_ON_NODE,
    phases: DETACHING_PHASE,
    meaning: "one or two requests were sent, or the guest is paused",
    owner: "the guest",
    advice: "the guest has not released the device yet",
  },
  GuestRefused: {
    ...WARNING_ON_NODE,
    phases: DETACHING_PHASE,
    meaning:
      "the guest has not released the device after three or more requests, or libvirt reports that it refused; the request is repeated every 10 s to 1 min",
    owner: "the owner of the guest",
  },
  DetachFailed: {
    ...WARNING_ON_NODE,
    phases: DETACHING_PHASE,
    meaning: "libvirt refused the unplug request; the message is libvirt's own",
    owner: "administrator",
  },
  DomainBusy: {
    ...NORMAL_ON_NODE,
    phases: DEVICE_PHASES,
    meaning:
      "another operation (a save or a dump) holds the domain's lock; libvirt waits 30 s for it",
    owner: "no action: the operation ends by itself",
    advice: "another operation is using the VM; the change is retried until that ends",
  },
  WaitingForMigration: {
    ...NORMAL_ON_NODE,
    phases: DEVICE_PHASES,
    meaning: "the VM is being migrated; its NICs are not changed until the migration has ended",
    owner: "no action: the operation ends by itself",
    advice: "the VM is being migrated; the change is retried until that ends",
  },
  DeviceUnsupported: {
    ...WARNING_ON_NODE,
    phases: DEVICE_PHASES,
    meaning: "libvirt or QEMU does not support this operation on this device",
    owner: "user",
    advice: "change the interface (its model, for example) or restart the VM",
  },
  DeviceNameTaken: {
    ...WARNING_ON_NODE,
    phases: DEVICE_PHASES,
    meaning: "the guest has another device with that alias",
    owner: "user: choose another name",
    advice: "remove the interface and add it under another name, or restart the VM",
  },
  DomainNotRunning: {
    ...NORMAL_ON_NODE,
    phases: DEVICE_PHASES,
    meaning: "the guest ended in the meantime",
    owner: "no action: the next start of the VM",
    advice: "the change is made when the VM runs again",
  },
  DomainMissing: {
    ...NORMAL_ON_NODE,
    phases: DEVICE_PHASES,
    meaning: "the launcher's libvirt no longer has the domain",
    owner: "no action: the next start of the VM",
    advice:
      "the guest has ended or moved to another node; the change is made where the VM runs next",
  },
  UnwiringFailed: {
    ...WARNING_ON_NODE,
    phases: "`Unwiring`",
    meaning: "the kernel refused a change to the links",
    owner: "administrator",
  },
  LibvirtTimedOut: {
    ...WARNING_ON_NODE,
    phases: "any phase of virt-handler; the VM as a whole",
    meaning: "libvirt did not respond within 40 s; the connection was closed",
    owner: "administrator",
    advice: "libvirt or QEMU hangs; the call is retried; restart the VM if this persists",
  },
  LauncherUnreachable: {
    ...WARNING_ON_NODE,
    phases: "any phase of virt-handler; the VM as a whole",
    meaning:
      "the launcher's libvirt is not running or refuses connections; links and device are shown as last observed",
    owner: "administrator",
    advice: "the connection is retried; if this persists, check the launcher pod and its log",
  },
  RuntimeUnavailable: {
    ...WARNING_ON_NODE,
    phases: "`PodAttaching`; any phase of virt-handler; the VM as a whole",
    meaning:
      "the container runtime did not report the pod's sandbox (`CRI_UNAVAILABLE`); links and device are shown as last observed",
    owner: "administrator",
    from: "net-agent, virt-handler",
    next: "the node's container runtime responds; the call is retried",
    advice:
      "the call is retried; if this persists, check that the node's container runtime is running and that --cri-endpoint names it",
  },
  GuestNotStarted: {
    ...WARNING_ON_NODE,
    phases: "none: the VM as a whole",
    meaning:
      "libvirt could not define or start the domain (the kernel is not in the image, for example); the message is libvirt's own",
    owner: "user",
  },
  WaitingForHooks: {
    ...NO_EVENT_ON_NODE,
    phases: "none: the VM as a whole",
    meaning: "the hooks of the VM (sidecars of its launcher) are processing its domain",
    owner: "the hooks",
  },
  HookFailed: {
    ...WARNING_ON_NODE,
    phases: "none: the VM as a whole",
    meaning:
      "a hook of the VM does not listen, does not reply in time, or fails; the guest is not started without it",
    owner: "user",
    advice:
      "see the log of the hook's container in the launcher pod; the call is retried, and a restart of the VM retries it at once",
  },
  HookAnswerRefused: {
    ...WARNING_ON_NODE,
    phases: "none: the VM as a whole",
    meaning:
      "a hook of the VM changes fields that hooks may not change, returns XML that is not a domain, or replies differently each time",
    owner: "user: correct the hook",
    advice:
      "correct the hook; docs/design/hooks.md lists what it may change; a restart of the VM calls it at once",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;

/** All reasons, from which `docs/reference/reasons.md` is generated. */
export const REASONS = { ...REASONS_IN_POD, ...REASONS_ON_NODE } as const;

/** Stable identifier of a reason in CamelCase, which appears in the status. */
export type Reason = keyof typeof REASONS;

function isReason(text: string): text is Reason {
  return Object.hasOwn(REASONS, text);
}

export function findEventType(reason: string): "Warning" | "Normal" | undefined {
  const { event }: Pick<ReasonEntry, "event"> = isReason(reason)
    ? REASONS[reason]
    : { event: "Warning" };
  return event === "none" ? undefined : event;
}

export function findReasonOwner(reason: string | undefined): string | undefined {
  return reason === undefined || !isReason(reason) ? undefined : REASONS[reason].owner;
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
