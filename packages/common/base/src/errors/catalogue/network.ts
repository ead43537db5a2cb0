// SPDX-License-Identifier: Apache-2.0
import type { ErrorEntry } from "../entry.ts";

export const CNI_ERRORS = {
  CNI_PLUGIN_FAILED: {
    summary: "CNI plugin {plugin} failed on {command}: {message}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_PLUGIN_MISSING: {
    summary: "CNI plugin {plugin} was not found in {path}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_TIMED_OUT: {
    summary: "CNI plugin {plugin} did not finish {command} within {timeoutMs} ms and was killed",
    who: "environment",
    retry: "backoff",
    http: 504,
  },
  CNI_CONFIG_INVALID: {
    summary: "the configuration of network {network} is invalid: {reason}",
    who: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_NETWORK_NOT_FOUND: {
    summary: "there is no NetworkAttachmentDefinition {network}",
    who: "user",
    retry: "on-change",
    http: 404,
  },
  CNI_DEFINITION_FILE_MISSING: {
    summary:
      "NetworkAttachmentDefinition {network} has no spec.config, and no file in {directory} of the node defines a network named {name}; {seen}",
    who: "user",
    retry: "backoff",
    http: 404,
  },
  CNI_NETWORK_FORBIDDEN: {
    summary: "pods of namespace {namespace} may not use network {network}",
    who: "user",
    retry: "on-change",
    http: 403,
  },
  CNI_DEFINITION_FORBIDDEN: {
    summary:
      "net-agent's tenant policy forbids definitions of namespace {namespace} to name: {named}",
    who: "user",
    retry: "on-change",
    http: 403,
  },
  CNI_DEFINITION_TOLERATED: {
    summary:
      "networks of this definition are attached, although net-agent's tenant policy forbids definitions of namespace {namespace} to name: {named}",
    who: "user",
    retry: "on-change",
    http: 403,
  },
  CNI_LINK_MISSING: {
    summary: "network {network} needs link {link} ({field}), which the node does not have",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_LINK_UNFIT: {
    summary: "network {network} needs {link} ({field}) to be a bridge; on the node it is not one",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_VLAN_UNSUPPORTED: {
    summary:
      "network {network} needs VLAN filtering on bridges ({field}), which the kernel of the node does not support",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_ADDRESSES_EXHAUSTED: {
    summary: "all {size} addresses of {field} of network {network} are in use on the node",
    who: "user",
    retry: "backoff",
    http: 409,
  },
  CNI_CANNOT_CARRY_VM: {
    summary: "plugin {plugin} of network {network} makes NICs that cannot carry a VM's traffic",
    who: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_REQUEST_INVALID: {
    summary: "the request for network {network} is invalid: {reason}",
    who: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_REQUEST_NOT_MET: {
    summary: "the network did not provide what was requested: {what}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_NO_DEVICE: {
    summary: "network {network} needs a device of the pod's own: {reason}",
    who: "user",
    retry: "on-change",
    http: 409,
  },
  CNI_JOURNAL_BROKEN: {
    summary:
      "the journal file {path} cannot be read; remove the file once its attachment is gone from the pod",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_CALL_INVALID: {
    summary: "the container runtime's call of the CNI plugin is not valid: {reason}",
    who: "environment",
    retry: "never",
    http: 400,
  },
  CNI_POD_UNKNOWN: {
    summary:
      "the API server knows no pod {pod} with UID {uid} on this node; the container runtime asks again",
    who: "environment",
    retry: "backoff",
    http: 404,
  },
  CNI_DEFAULT_NETWORK_MISSING: {
    summary:
      "the pods' default network cannot be read: {reason}; see net-agent's --default-network",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  CNI_OWN_DEFAULT_INVALID: {
    summary: "annotation {annotation} of pod {pod} cannot be used: {reason}",
    who: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_PLUGIN_CALLS_ITSELF: {
    summary:
      "network {network} names plugin {plugin}, which only calls net-agent; name the plugin that makes the network",
    who: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_POD_NOT_ATTACHED: {
    summary: "not all networks of pod {pod} could be attached: {reasons}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_GC_HELD: {
    summary: "unused resources of network {network} are not freed now: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_RUNTIME_TAKEN: {
    summary:
      "{path} has the container runtime call {plugin}, which also attaches what annotations ask for: remove it, or start net-agent without --cni-socket",
    who: "environment",
    retry: "on-change",
    http: 409,
  },
  CNI_NAME_TAKEN: {
    summary: "the pod already has an interface {interface} that Patchbay did not create",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
} as const satisfies Record<string, ErrorEntry>;

export const PODNET_ERRORS = {
  PODNET_LINK_MISSING: {
    summary: "the pod has no NIC {link}",
    who: "environment",
    retry: "backoff",
    http: 404,
  },
  PODNET_FAILED: {
    summary: "the links of the pod cannot be changed: {message}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  PODNET_ARGUMENT_INVALID: {
    summary: "the links of the pod were asked for something impossible: {reason}",
    who: "bug",
    retry: "on-change",
    http: 500,
  },
  PODNET_CAPTURE_FAILED: {
    summary: "packets of {link} in the pod cannot be captured: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CAPTURE_FILTER_INVALID: {
    summary: "filter: {filter} is not valid (see pcap-filter(7)): {reason}",
    who: "user",
    retry: "never",
    http: 400,
  },
  CAPTURE_NOT_POSSIBLE: {
    summary: "packets of interface {iface} of {vmi} cannot be captured: {reason}",
    who: "user",
    retry: "never",
    http: 409,
  },
  DOCTOR_BUSY: {
    summary: "interface {iface} of {vmi} cannot be examined now: {reason}",
    who: "user",
    retry: "backoff",
    http: 429,
  },
  DOCTOR_LATE: {
    summary: "interface {iface} of {vmi} could not be examined within {seconds} s",
    who: "environment",
    retry: "backoff",
    http: 504,
  },
  PODNET_ADDRESSES_UNREADABLE: {
    summary:
      "{path} cannot be read; it holds the addresses taken from a NIC of the pod, and without them the VM gets no address until its pod is replaced",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  PODNET_ADDRESS_SERVER_FAILED: {
    summary: "the DHCP server of the NIC ended: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  PODNET_NETWORK_CANNOT_CARRY_VM: {
    summary: "a pod NIC of kind {kind} cannot carry a VM's traffic",
    who: "user",
    retry: "on-change",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;
