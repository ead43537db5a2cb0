// SPDX-License-Identifier: Apache-2.0
// Which claims does a VMI use, and which of them are there?
import type { PersistentVolumeClaim, VirtualMachineInstance } from "@patchbay/api";
import { claimNamesOf, type VmiFacts } from "@patchbay/core";
import type { Cache } from "@patchbay/core/ports";

/** The claims that the VMI uses, as far as they are there. */
export function claimsOf(
  vmi: VirtualMachineInstance,
  claims: Pick<Cache<PersistentVolumeClaim>, "find">,
): VmiFacts["storage"]["claims"] {
  const { namespace = "" } = vmi.metadata;
  const found = claimNamesOf(vmi).flatMap((name) => {
    const claim = claims.find({ namespace, name });
    return claim === undefined ? [] : [[name, claim] as const];
  });
  return new Map(found);
}
