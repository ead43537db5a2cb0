// SPDX-License-Identifier: Apache-2.0
// Reasons for which a pod does not get a NIC.
import type { ReasonEntry } from "./reason.ts";

/** The VMI tells of each by virt-handler's event, when it has reported it. */
const ATTACHING = { phases: "`PodAttaching`", from: "net-agent", event: "Warning" } as const;

/** Of the pod's annotation, on the pod alone. */
const OF_ANNOTATION = {
  phases: "none: in the pod's annotation only",
  who: "whoever wrote the annotation",
  from: "net-agent",
  event: "none",
} as const;

/** In the order of the reference. */
export const REASONS_IN_POD = {
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
    ...ATTACHING,
    meaning:
      "the NetworkAttachmentDefinition does not exist; the attachment is tried again when it is created",
    who: "user",
    advice:
      "create it, or name another one; the interface is attached as soon as the definition exists",
  },
  DefinitionFileMissing: {
    ...ATTACHING,
    meaning:
      "the NetworkAttachmentDefinition has no configuration, and no file of the node defines a network of its name",
    who: "user, administrator",
    advice:
      "write the configuration into spec.config of NetworkAttachmentDefinition {network}, or have an administrator put a .conf, .json or .conflist file with that name into the directory on every node; the attachment is tried again",
  },
  NetworkForbidden: {
    ...ATTACHING,
    meaning: "the network is in another namespace, and the node isolates namespaces",
    who: "user, administrator",
    advice: "use a network of the pod's own namespace or of namespace default",
  },
  DefinitionForbidden: {
    ...ATTACHING,
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
    ...ATTACHING,
    meaning: "the CNI configuration or its name is invalid",
    who: "user",
    advice:
      "correct spec.config of NetworkAttachmentDefinition {network}; the attachment is tried again as soon as it is changed",
  },
  AddressesExhausted: {
    ...ATTACHING,
    meaning: "every address in the network's range is in use",
    who: "user",
    advice:
      "every address of network {network} is in use: unplug an interface from it, or enlarge the range in spec.config of its NetworkAttachmentDefinition; the attachment is tried again",
  },
  PluginMissing: {
    ...ATTACHING,
    meaning: "a plugin that the network's definition names, or its IPAM plugin, is not on the node",
    who: "user, administrator",
    advice:
      "correct the name in spec.config of NetworkAttachmentDefinition {network}, or have an administrator install the plugin on the node; the attachment is tried again",
  },
  NodeLinkUnfit: {
    ...ATTACHING,
    meaning:
      "a link that the network's definition names is not on the node, or is no bridge where one is needed",
    who: "user, administrator",
    advice:
      "name another link in spec.config of NetworkAttachmentDefinition {network}, or have an administrator create it on the node; the attachment is tried again",
  },
  VlanUnsupported: {
    ...ATTACHING,
    meaning:
      "the network needs VLAN filtering on bridges, which the node's kernel does not support",
    who: "user, administrator",
    advice:
      "use plugin vlan, or a bridge on a VLAN of the node, in spec.config of NetworkAttachmentDefinition {network}, or have an administrator install a kernel with CONFIG_BRIDGE_VLAN_FILTERING",
  },
  NetworkNotOnNode: {
    ...ATTACHING,
    from: "virt-controller",
    meaning:
      "the node has said in the status of the NetworkAttachmentDefinition that it cannot make interfaces of it, so that nothing is asked for; the message names the nodes that have it",
    who: "user, administrator",
    next: "the node has what the network needs, or the VM is started on one that has",
  },
  RequestInvalid: {
    ...ATTACHING,
    meaning:
      "a value that is requested (MAC, addresses, ports, bandwidth, gateways, device) is malformed, or cannot be had by this pod; the message has the fields",
    who: "user",
    advice:
      "correct the fields that are named in the element of the pod's annotation; of a VM, remove the interface and add it again with other values, or with none",
  },
  RequestNotMet: {
    ...ATTACHING,
    meaning:
      "the network did not give the MAC, the address or the default route that was requested, or no plugin of it takes the request; the attachment was undone",
    who: "administrator",
  },
  NoDevice: {
    ...ATTACHING,
    meaning:
      "the network's definition names a resource (`k8s.v1.cni.cncf.io/resourceName`), or the request a device, and the pod has no device of it that is free; or the node's kubelet does not say which devices the pod has",
    who: "user, administrator",
    advice:
      "a container must ask for one device of the resource for each attachment, in resources.limits when the pod is created; the attachment is tried again when another one of the pod is removed, and while the kubelet does not answer",
  },
  InterfaceNameTaken: {
    ...ATTACHING,
    meaning:
      "the pod already has an interface of that name, or its status gives the name to another network",
    who: "administrator",
  },
  CniFailed: {
    ...ATTACHING,
    meaning: "the CNI plugin failed or did not finish; the message is the plugin's own",
    who: "administrator",
  },
  AnnotationInvalid: {
    ...OF_ANNOTATION,
    meaning:
      "the annotation cannot be parsed, is longer than 64 KiB or names more than 64 networks; nothing is changed",
  },
  HostNetwork: {
    ...OF_ANNOTATION,
    meaning: "the pod uses its node's network, where nothing is attached",
  },
  DuplicateInterface: {
    ...OF_ANNOTATION,
    meaning: "an interface name is requested twice; the first request counts",
  },
  AttributesFixed: {
    ...OF_ANNOTATION,
    meaning:
      "the element of an attached interface asks for another MAC, other addresses, another default route, bandwidth or the like than it was attached with, or, in a launcher of KubeVirt, for another network; the interface stays as it is until it is unplugged and plugged again, or, in a launcher of KubeVirt, until KubeVirt migrates the VM",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;
