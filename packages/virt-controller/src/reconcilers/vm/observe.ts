// SPDX-License-Identifier: Apache-2.0
// Which facts the VM loop looks at.
import type { VmFacts } from "@patchbay/core";
import type { Deps } from "../../deps.ts";
import { parseKey } from "@patchbay/kube";

/** The facts of a VM; undefined when it is gone, or when the caches are behind this process's own writes. */
export function observeVm(key: string, deps: Deps): VmFacts | undefined {
  const object = parseKey(key);
  const vm = deps.vms.find(object);
  const vmi = deps.vmis.find(object);
  if (vm === undefined || deps.ownWrites.isBehind(vm)) return undefined;
  if (vmi !== undefined && deps.ownWrites.isBehind(vmi)) return undefined;
  return { vm, vmi };
}
