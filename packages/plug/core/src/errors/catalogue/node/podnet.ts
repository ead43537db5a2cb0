// SPDX-License-Identifier: Apache-2.0
// Errors of links in the pod.
import type { ErrorEntry } from "../../entry.ts";

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
