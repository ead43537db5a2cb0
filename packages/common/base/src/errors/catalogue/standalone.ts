// SPDX-License-Identifier: Apache-2.0
import type { ErrorEntry } from "../entry.ts";

export const STANDALONE_ERRORS = {
  STANDALONE_NOT_ROOT: {
    summary:
      "only root can run a standalone machine, which needs namespaces, bridges and devices; run the command as root",
    owner: "user",
    retry: "never",
    http: 403,
  },
  STANDALONE_NOT_OURS: {
    summary:
      "{dataDir} does not look like a data directory of patchbay ({reason}); nothing was changed",
    owner: "user",
    retry: "never",
    http: 403,
  },
  STANDALONE_NOT_FOUND: {
    summary: "there is no machine in {dataDir}",
    owner: "user",
    retry: "never",
    http: 404,
  },
  STANDALONE_RUNS_ALREADY: {
    summary: "a supervisor of {dataDir} is already running: process {pid}",
    owner: "user",
    retry: "never",
    http: 409,
  },
  STANDALONE_SETTING_INVALID: {
    summary: "the settings are invalid: {causes}",
    owner: "user",
    retry: "never",
    http: 400,
  },
  STANDALONE_NO_SYSTEMD: {
    summary:
      "systemd does not run here, so no service can be installed; nothing was changed. Let the init system of this machine run: patchbay up",
    owner: "environment",
    retry: "never",
    http: 400,
  },
  STANDALONE_SERVICE_TAKEN: {
    summary:
      "patchbay.service starts the machine in {dataDir}; nothing was changed. Remove it first: patchbay --data-dir {dataDir} down --uninstall-service",
    owner: "user",
    retry: "never",
    http: 409,
  },
  STANDALONE_UPGRADE_REFUSED: {
    summary: "the machine is not upgraded, and nothing was changed: {reason}",
    owner: "user",
    retry: "never",
    http: 409,
  },
  STANDALONE_UPGRADE_FAILED: {
    summary:
      "the services of the new program did not start, and the pods still run: {reason}. Repeat: patchbay up, with this program or the previous one",
    owner: "environment",
    retry: "never",
    http: 500,
  },
  STANDALONE_BACKUP_FAILED: {
    summary: "there is no new backup, and an earlier one was not changed: {reason}",
    owner: "environment",
    retry: "never",
    http: 500,
  },
  STANDALONE_RESTORE_REFUSED: {
    summary: "{dataDir} is not restored, and nothing was changed: {reason}",
    owner: "user",
    retry: "never",
    http: 409,
  },
  STANDALONE_STOP_FAILED: {
    summary: "the supervisor did not stop: {reason}",
    owner: "environment",
    retry: "backoff",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;

export const PATCHBAY_ERRORS = {
  FORMAT_TOO_NEW: {
    summary:
      "{path} has format {found}, but this version of Patchbay supports formats up to {supported}; nothing was changed: run the version that wrote it, or a newer one",
    owner: "user",
    retry: "never",
    http: 500,
  },
  FLAG_INVALID: {
    summary: "{flag}: {reason}",
    owner: "user",
    retry: "never",
    http: 400,
  },
  INTERFACE_DOES_NOT_WORK: {
    summary: "interface {iface} of {vm} does not work: {hop}: {why}; {stands}",
    owner: "environment",
    retry: "on-change",
    http: 500,
  },
  INTERFACE_NOT_CHECKED: {
    summary:
      "interface {iface} of {vm} is plugged and was left in place; it could not be checked: {reason}",
    owner: "environment",
    retry: "on-change",
    http: 500,
  },
  DOCTOR_FOUND_DEAD: {
    summary: "{dead} of {all} interfaces lose frames: {hops}",
    owner: "environment",
    retry: "on-change",
    http: 500,
  },
  DOCTOR_FOUND: {
    summary: "{wrong} of {all} checks found something wrong",
    owner: "environment",
    retry: "on-change",
    http: 500,
  },
  PANEL_NOT_BUILT: {
    summary: "the panel's page is not built: {path} is missing; run: npm run build",
    owner: "environment",
    retry: "never",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
