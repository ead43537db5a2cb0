// SPDX-License-Identifier: Apache-2.0
// Errors of installing and uninstalling on a cluster.
import type { ErrorEntry } from "../entry.ts";

export const MANIFESTS_ERRORS = {
  INSTALL_NOT_OURS: {
    summary: "the cluster has what Patchbay did not make, and nothing was touched: {objects}",
    who: "user",
    retry: "never",
    http: 409,
  },
  INSTALL_IN_USE: {
    summary: "there are virtual machines, and nothing was touched: {objects}",
    who: "user",
    retry: "never",
    http: 409,
  },
} as const satisfies Record<string, ErrorEntry>;
