// SPDX-License-Identifier: Apache-2.0
// Errors of the container runtime.
import type { ErrorEntry } from "../../entry.ts";

export const CRI_ERRORS = {
  CRI_UNAVAILABLE: {
    summary: "no container runtime answers at {endpoint} (CRI_UNAVAILABLE): {reason}",
    who: "environment",
    retry: "backoff",
    http: 503,
  },
  CRI_FAILED: {
    summary: "the container runtime failed at {call} with {status}: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  CRI_TIMED_OUT: {
    summary: "the container runtime did not finish {call} within {timeoutMs} ms",
    who: "environment",
    retry: "backoff",
    http: 504,
  },
} as const satisfies Record<string, ErrorEntry>;
