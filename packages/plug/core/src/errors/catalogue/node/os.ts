// SPDX-License-Identifier: Apache-2.0
// Errors of processes, files and system calls.
import type { ErrorEntry } from "../../entry.ts";

export const OS_ERRORS = {
  OS_TIMED_OUT: {
    summary: "{program} did not finish within {timeoutMs} ms and was killed",
    who: "environment",
    retry: "backoff",
    http: 504,
  },
  OS_PROGRAM_FAILED: {
    summary: "{program} failed with {exitCode}: {stderr}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  OS_PROGRAM_MISSING: {
    summary: "{program} is not installed",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  OS_DESCRIPTOR_STALE: {
    summary: "descriptor {fd} no longer refers to what it was opened for",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  OS_MESSAGE_TOO_LONG: {
    summary: "a message of {bytes} bytes cannot be sent; the limit is {bytesMax} bytes",
    who: "bug",
    retry: "backoff",
    http: 500,
  },
  OS_PATH_REFUSED: {
    summary: "{path} is refused: {reason}",
    who: "environment",
    retry: "backoff",
    http: 403,
  },
  OS_FILE_IN_USE: {
    summary: "{path} is in use by {device}: whatever has it mounted has to let go of it first",
    who: "environment",
    retry: "backoff",
    http: 409,
  },
  OS_FILE_FAILED: {
    summary: "{call} of {path} failed: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
