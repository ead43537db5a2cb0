// SPDX-License-Identifier: Apache-2.0
import type { ErrorEntry } from "../entry.ts";

export const CNI_ERRORS = {
  CNI_PLUGIN_FAILED: {
    summary: "CNI plugin {plugin} failed on {command}: {message}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_PLUGIN_MISSING: {
    summary: "CNI plugin {plugin} was not found in {path}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_TIMED_OUT: {
    summary: "CNI plugin {plugin} did not finish {command} within {timeoutMs} ms and was killed",
    owner: "environment",
    retry: "backoff",
    http: 504,
  },
  CNI_CONFIG_INVALID: {
    summary: "the configuration of network {network} is invalid: {reason}",
    owner: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_NETWORK_NOT_FOUND: {
    summary: "there is no NetworkAttachmentDefinition {network}",
    owner: "user",
    retry: "on-change",
    http: 404,
  },
  CNI_DEFINITION_FILE_MISSING: {
    summary:
      "NetworkAttachmentDefinition {network} has no spec.config, and no file in {directory} of the node defines a network named {name}; {seen}",
    owner: "user",
    retry: "backoff",
    http: 404,
  },
  CNI_NETWORK_FORBIDDEN: {
    summary: "pods of namespace {namespace} may not use network {network}",
    owner: "user",
    retry: "on-change",
    http: 403,
  },
  CNI_DEFINITION_FORBIDDEN: {
    summary:
      "net-agent's tenant policy forbids definitions of namespace {namespace} to name: {named}",
    owner: "user",
    retry: "on-change",
    http: 403,
  },
  CNI_DEFINITION_TOLERATED: {
    summary:
      "networks of this definition are attached, although net-agent's tenant policy forbids definitions of namespace {namespace} to name: {named}",
    owner: "user",
    retry: "on-change",
    http: 403,
  },
  CNI_DEFINITION_MEMBERS_IGNORED: {
    summary:
      "plugins of network {network} do not receive {named}, which only the container runtime sets",
    owner: "user",
    retry: "on-change",
    http: 403,
  },
  CNI_REQUEST_FORBIDDEN: {
    summary:
      "net-agent's tenant policy forbids pods of namespace {namespace} to request from network {network}: {named}",
    owner: "user",
    retry: "on-change",
    http: 403,
  },
  CNI_LINK_MISSING: {
    summary: "network {network} needs link {link} ({field}), which the node does not have",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_LINK_UNFIT: {
    summary: "network {network} needs {link} ({field}) to be a bridge; on the node it is not one",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_VLAN_UNSUPPORTED: {
    summary:
      "network {network} needs VLAN filtering on bridges ({field}), which the kernel of the node does not support",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_ADDRESSES_EXHAUSTED: {
    summary: "all {size} addresses of {field} of network {network} are in use on the node",
    owner: "user",
    retry: "backoff",
    http: 409,
  },
  CNI_CANNOT_CARRY_VM: {
    summary: "plugin {plugin} of network {network} makes NICs that cannot carry a VM's traffic",
    owner: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_REQUEST_INVALID: {
    summary: "the request for network {network} is invalid: {reason}",
    owner: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_REQUEST_NOT_MET: {
    summary: "the network did not provide what was requested: {what}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_NO_DEVICE: {
    summary: "network {network} needs a device that is allocated to the pod: {reason}",
    owner: "user",
    retry: "on-change",
    http: 409,
  },
  CNI_JOURNAL_BROKEN: {
    summary:
      "the journal file {path} cannot be read; remove the file once its attachment is gone from the pod",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_CALL_INVALID: {
    summary: "the container runtime's call of the CNI plugin is not valid: {reason}",
    owner: "environment",
    retry: "never",
    http: 400,
  },
  CNI_POD_UNKNOWN: {
    summary:
      "the API server has no pod {pod} with UID {uid} on this node; the container runtime will retry",
    owner: "environment",
    retry: "backoff",
    http: 404,
  },
  CNI_DEFAULT_NETWORK_MISSING: {
    summary:
      "the pods' default network cannot be read: {reason}; see net-agent's --default-network",
    owner: "environment",
    retry: "backoff",
    http: 503,
  },
  CNI_OWN_DEFAULT_INVALID: {
    summary: "annotation {annotation} of pod {pod} cannot be used: {reason}",
    owner: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_PLUGIN_CALLS_ITSELF: {
    summary:
      "network {network} names plugin {plugin}, which only calls net-agent; name the plugin that makes the network",
    owner: "user",
    retry: "on-change",
    http: 422,
  },
  CNI_POD_NOT_ATTACHED: {
    summary: "not all networks of pod {pod} could be attached: {reasons}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_GC_HELD: {
    summary: "unused resources of network {network} cannot be released now: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CNI_RUNTIME_TAKEN: {
    summary:
      "{path} has the container runtime call {plugin}, which also attaches what annotations ask for: remove it, or start net-agent without --cni-socket",
    owner: "environment",
    retry: "on-change",
    http: 409,
  },
  CNI_NAME_TAKEN: {
    summary: "the pod already has an interface {interface} that Patchbay did not create",
    owner: "environment",
    retry: "backoff",
    http: 409,
  },
} as const satisfies Record<string, ErrorEntry>;

export const PODNET_ERRORS = {
  PODNET_LINK_MISSING: {
    summary: "the pod has no NIC {link}",
    owner: "environment",
    retry: "backoff",
    http: 404,
  },
  PODNET_FAILED: {
    summary: "the links of the pod cannot be changed: {message}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  PODNET_ARGUMENT_INVALID: {
    summary: "the requested links of the pod are not possible: {reason}",
    owner: "bug",
    retry: "on-change",
    http: 500,
  },
  PODNET_CAPTURE_FAILED: {
    summary: "packets of {link} in the pod cannot be captured: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  CAPTURE_FILTER_INVALID: {
    summary: "filter: {filter} is not valid (see pcap-filter(7)): {reason}",
    owner: "user",
    retry: "never",
    http: 400,
  },
  CAPTURE_NOT_POSSIBLE: {
    summary: "packets of interface {iface} of {vmi} cannot be captured: {reason}",
    owner: "user",
    retry: "never",
    http: 409,
  },
  DOCTOR_BUSY: {
    summary: "interface {iface} of {vmi} cannot be examined now: {reason}",
    owner: "user",
    retry: "backoff",
    http: 429,
  },
  DOCTOR_LATE: {
    summary: "interface {iface} of {vmi} could not be examined within {seconds} s",
    owner: "environment",
    retry: "backoff",
    http: 504,
  },
  PODNET_ADDRESSES_UNREADABLE: {
    summary:
      "the recorded addresses of a pod NIC cannot be read from {path}; the VM gets no address until its pod is replaced",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  PODNET_ADDRESS_SERVER_FAILED: {
    summary: "the DHCP server of the NIC ended: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
  PODNET_NETWORK_CANNOT_CARRY_VM: {
    summary: "a pod NIC of kind {kind} cannot carry a VM's traffic",
    owner: "user",
    retry: "on-change",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;
