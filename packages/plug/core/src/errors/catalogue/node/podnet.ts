// SPDX-License-Identifier: Apache-2.0
// Errors of links in the pod.
import type { ErrorEntry } from "../../entry.ts";

export const PODNET_ERRORS = {
  PODNET_LINK_MISSING: {
    summary: "pod NIC {link} is not in the pod",
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
  PODNET_ADDRESSES_UNREADABLE: {
    summary:
      "{path} cannot be read, which has what was taken from a NIC of a pod; without it the VM gets no address until its pod is made anew",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  PODNET_ADDRESS_SERVER_FAILED: {
    summary: "the DHCP server of the VM ended: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  PODNET_NETWORK_CANNOT_CARRY_VM: {
    summary: "a NIC of kind {kind} cannot carry a VM",
    who: "user",
    retry: "on-change",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;
