// SPDX-License-Identifier: Apache-2.0
// Errors of Services on a standalone machine.
import type { ErrorEntry } from "../../entry.ts";

export const SERVICES_ERRORS = {
  SERVICE_RULES_REFUSED: {
    summary: "nftables refused the rules of Services: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  SERVICE_NAMES_FAILED: {
    summary: "the name server cannot listen at {address}, port 53: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
