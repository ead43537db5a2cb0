// SPDX-License-Identifier: Apache-2.0
// Errors of the command line.
import type { ErrorEntry } from "../entry.ts";

export const PATCHBAY_ERRORS = {
  FLAG_INVALID: {
    summary: "{flag}: {reason}",
    who: "user",
    retry: "never",
    http: 400,
  },
  INTERFACE_DOES_NOT_WORK: {
    summary: "interface {iface} of {vm} does not work: {hop}: {why}; {stands}",
    who: "environment",
    retry: "on-change",
    http: 500,
  },
  INTERFACE_NOT_CHECKED: {
    summary:
      "interface {iface} of {vm} is plugged and was left in place; it could not be checked: {reason}",
    who: "environment",
    retry: "on-change",
    http: 500,
  },
  DOCTOR_FOUND_DEAD: {
    summary: "{dead} of {all} interfaces lose frames: {hops}",
    who: "environment",
    retry: "on-change",
    http: 500,
  },
  DOCTOR_FOUND: {
    summary: "{wrong} of {all} checks found something wrong",
    who: "environment",
    retry: "on-change",
    http: 500,
  },
  PANEL_NOT_BUILT: {
    summary: "the panel's page is not built: {path} is missing; run: npm run build",
    who: "environment",
    retry: "never",
    http: 500,
  },
} as const satisfies Record<string, ErrorEntry>;
