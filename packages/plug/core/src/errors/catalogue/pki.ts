// SPDX-License-Identifier: Apache-2.0
// Errors of certificates and keys.
import type { ErrorEntry } from "../entry.ts";

export const PKI_ERRORS = {
  PKI_PEM_INVALID: {
    summary: "the {what} cannot be read: {reason}",
    who: "environment",
    retry: "never",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
