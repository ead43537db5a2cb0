// SPDX-License-Identifier: Apache-2.0
// Errors of the standalone machine as a whole.
import type { ErrorEntry } from "../entry.ts";

export const STANDALONE_ERRORS = {
  STANDALONE_NOT_ROOT: {
    summary:
      "only root can run a standalone machine, which needs namespaces, bridges and devices; run the command as root",
    who: "user",
    retry: "never",
    http: 403,
  },
  STANDALONE_NOT_OURS: {
    summary:
      "{dataDir} does not look like a data directory of patchbay ({reason}); nothing was changed",
    who: "user",
    retry: "never",
    http: 403,
  },
  STANDALONE_NOT_FOUND: {
    summary: "there is no machine in {dataDir}",
    who: "user",
    retry: "never",
    http: 404,
  },
  STANDALONE_RUNS_ALREADY: {
    summary: "a supervisor of {dataDir} is already running: process {pid}",
    who: "user",
    retry: "never",
    http: 409,
  },
  STANDALONE_SETTING_INVALID: {
    summary: "the settings are invalid: {causes}",
    who: "user",
    retry: "never",
    http: 400,
  },
  STANDALONE_STOP_FAILED: {
    summary: "the supervisor did not stop: {reason}",
    who: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
