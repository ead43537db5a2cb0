// SPDX-License-Identifier: Apache-2.0
// Errors of installing and uninstalling on a cluster.
import type { ErrorEntry } from "../entry.ts";

export const MANIFESTS_ERRORS = {
  INSTALL_NOT_OURS: {
    summary: "the cluster has objects that Patchbay did not create; nothing was changed: {objects}",
    who: "user",
    retry: "never",
    http: 409,
  },
  INSTALL_IN_USE: {
    summary: "the cluster still has virtual machines; nothing was changed: {objects}",
    who: "user",
    retry: "never",
    http: 409,
  },
} as const satisfies Record<string, ErrorEntry>;
