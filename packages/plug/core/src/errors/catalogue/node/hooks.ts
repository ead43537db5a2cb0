// SPDX-License-Identifier: Apache-2.0
// Errors of hooks, which are sidecars of a launcher that change its guest's domain.
import type { ErrorEntry } from "../../entry.ts";

export const HOOK_ERRORS = {
  HOOK_UNREACHABLE: {
    summary: "hook {hook} cannot be reached: {reason}",
    who: "user",
    retry: "backoff",
    http: 503,
  },
  HOOK_TIMED_OUT: {
    summary: "hook {hook} did not answer {call} within {timeoutMs} ms",
    who: "user",
    retry: "backoff",
    http: 504,
  },
  HOOK_FAILED: {
    summary: "hook {hook} failed at {call}: {reason}",
    who: "user",
    retry: "backoff",
    http: 502,
  },
  HOOK_ANSWER_REFUSED: {
    summary: "the answer of hook {hook} to {call} was refused: {reason}",
    who: "user",
    retry: "backoff",
    http: 422,
  },
} as const satisfies Record<string, ErrorEntry>;
