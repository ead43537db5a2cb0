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
  NetworkNotFound: {
    ...ATTACHING,
    meaning: "there is no such NetworkAttachmentDefinition; its coming wakes the pod",
    who: "user",
    advice: "make it, or name another one; the interface comes as soon as it is there",
  },
  NetworkForbidden: {
    ...ATTACHING,
    meaning: "the network is in another namespace, and the node isolates namespaces",
    who: "user, administrator",
    advice: "use a network of the pod's own namespace or of namespace default",
  },
  NetworkInvalid: {
    ...ATTACHING,
    meaning: "the CNI configuration cannot be used, or its name is none",
    who: "user",
    advice:
      "correct spec.config of NetworkAttachmentDefinition {network}; the interface is tried again as soon as it is changed",
  },
  AddressesExhausted: {
    ...ATTACHING,
    meaning: "every address of the network's range is taken",
    who: "user",
    advice:
      "every address of network {network} is taken: unplug an interface from it, or make the range in spec.config of its NetworkAttachmentDefinition larger; it is tried again",
  },
  RequestInvalid: {
    ...ATTACHING,
    meaning: "a MAC or an address that is asked for is malformed",
    who: "user",
    advice: "remove the interface and add it again with another one, or with none",
  },
  RequestNotMet: {
    ...ATTACHING,
    meaning: "the plugin succeeded and gave another MAC or address; undone",
    who: "administrator",
  },
  InterfaceNameTaken: {
    ...ATTACHING,
    meaning:
      "the pod has a NIC of that name that is not ours, or by its status another network has it",
    who: "administrator",
  },
  CniFailed: {
    ...ATTACHING,
    meaning: "the plugin failed, is missing or hung; the message is the plugin's",
    who: "administrator",
  },
  AnnotationInvalid: {
    ...OF_ANNOTATION,
    meaning:
      "the whole annotation cannot be read, is longer than 64 KiB or names more than 64 networks; nothing is changed",
  },
  HostNetwork: {
    ...OF_ANNOTATION,
    meaning: "the pod lives in the network of its node, where nothing is attached",
  },
  DuplicateInterface: {
    ...OF_ANNOTATION,
    meaning: "a name is asked for twice; the first counts",
  },
  AttributesFixed: {
    ...OF_ANNOTATION,
    meaning: "the MAC of a live attachment cannot change; remove it and add it again",
  },
} as const satisfies Readonly<Record<string, ReasonEntry>>;
