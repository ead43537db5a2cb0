// SPDX-License-Identifier: Apache-2.0
// Plugins with some of their operations changed.
import type { Cni } from "@patchbay/core/ports";

/** The same plugins; operations in `changed` take the place of theirs. */
export function wrapCni(cni: Cni, changed: Partial<Cni>): Cni {
  return {
    add: (request) => cni.add(request),
    del: (request, prevResult) => cni.del(request, prevResult),
    check: (request, prevResult) => cni.check(request, prevResult),
    status: (config) => cni.status(config),
    gc: (config, listValid) => cni.gc(config, listValid),
    releaseAddresses: (request) => cni.releaseAddresses(request),
    ...changed,
  };
}
