// SPDX-License-Identifier: Apache-2.0
// Errors of libvirt domain XML and PCI addresses.
import type { ErrorEntry } from "../../entry.ts";

export const DOMAIN_ERRORS = {
  DOMAIN_XML_INVALID: {
    summary: "libvirt's domain XML cannot be used: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  DOMAIN_SPEC_UNSUPPORTED: {
    summary: "the VM cannot be defined: {reason}",
    who: "user",
    retry: "on-change",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;
