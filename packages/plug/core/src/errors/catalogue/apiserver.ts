// SPDX-License-Identifier: Apache-2.0
// Errors of the embedded API server as a process; refusals of requests are Kubernetes `Status` bodies instead.
import type { ErrorEntry } from "../entry.ts";

export const APISERVER_ERRORS = {
  STORE_UNUSABLE: {
    summary: "the store {path} cannot be opened: {reason}",
    who: "environment",
    retry: "never",
    http: 500,
  },
  STORE_WRITE_FAILED: {
    summary: "the store could not be written: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
  STORE_BACKUP_INVALID: {
    summary: "{path} is not a complete backup: {reason}; nothing was changed",
    who: "user",
    retry: "never",
    http: 500,
  },
  APISERVER_LISTEN_FAILED: {
    summary: "the API server cannot listen on {host}:{port}: {reason}",
    who: "environment",
    retry: "never",
    http: 500,
  },
  APISERVER_TLS_INVALID: {
    summary: "the API server's certificates cannot be used: {reason}",
    who: "environment",
    retry: "never",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
