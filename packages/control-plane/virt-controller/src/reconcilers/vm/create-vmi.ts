// SPDX-License-Identifier: Apache-2.0
// Creates a VMI unless another guest uses one of its MACs on the same network segment. Reads the other VMIs from the API server, because
// the cache may lack a VMI that was created a moment ago.
import { isVmiFinal, VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import { AppError, type KeyedMutex } from "@patchbay/base";
import {
  findMacConflicts,
  ifacesOf,
  listMacs,
  describeMacOwner,
  findSharedLink,
  type MacOwner,
  type MacConflict,
} from "@patchbay/core/nics";
import { keyOf, parseKey, printKey } from "@patchbay/kube";

import type { Deps } from "../../deps.ts";

type CreationDeps = Pick<Deps, "store" | "vms" | "vmis" | "nads" | "macMutex">;

/** Index of VMs and VMIs by the MACs of their NICs, in lower case with colons. */
export const BY_MAC = "mac";

function toOwner({ metadata, spec }: VirtualMachineInstance): MacOwner {
  return { namespace: metadata.namespace ?? "", name: metadata.name, spec };
}

/** Returns the keys of other VMIs that may use one of the VMI's MACs. */
function listCandidates(vmi: VirtualMachineInstance, deps: CreationDeps): readonly string[] {
  const owners = listMacs(vmi.spec).flatMap((mac) => [
    ...deps.vms.listBy(BY_MAC, mac),
    ...deps.vmis.listBy(BY_MAC, mac),
  ]);
  const keys = new Set(owners.map((owner) => printKey(keyOf(owner))));
  keys.delete(printKey(keyOf(vmi)));
  return [...keys].sort();
}

/** Returns the first MAC of the VMI that a guest of another VM uses on the same network segment. */
async function findRunningMacConflict(
  vmi: VirtualMachineInstance,
  deps: CreationDeps,
): Promise<MacConflict | undefined> {
  const segmentOf = (network: string): string =>
    findSharedLink(deps.nads.find(parseKey(network))?.spec?.config) ?? network;
  for (const key of listCandidates(vmi, deps)) {
    const otherVmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, parseKey(key));
    if (otherVmi === undefined || isVmiFinal(otherVmi)) continue;
    const [conflict] = findMacConflicts(toOwner(vmi), [toOwner(otherVmi)], segmentOf);
    if (conflict !== undefined) return conflict;
  }
  return undefined;
}

/** Locks the MACs one after another. Callers must sort the MACs to prevent deadlocks. */
function withLockedMacs<T>(
  mutex: KeyedMutex,
  [first, ...otherMacs]: readonly string[],
  callback: () => Promise<T>,
): Promise<T> {
  if (first === undefined) return callback();
  return mutex.runExclusive(first, () => withLockedMacs(mutex, otherMacs, callback));
}

/** Creates the VMI. @throws AppError with CONTROLLER_MAC_IN_USE if another guest uses one of its MACs on the same network segment */
export function createUniqueVmi(
  vmi: VirtualMachineInstance,
  deps: CreationDeps,
): Promise<VirtualMachineInstance> {
  const macs = [...new Set(listMacs(vmi.spec))].sort();
  return withLockedMacs(deps.macMutex, macs, async () => {
    const conflict = await findRunningMacConflict(vmi, deps);
    if (conflict === undefined) return deps.store.create(VIRTUAL_MACHINE_INSTANCES, vmi);
    const { mac, network, owner } = conflict;
    throw new AppError("CONTROLLER_MAC_IN_USE", {
      mac,
      network,
      interface: ifacesOf(vmi.spec)[conflict.index]?.name ?? "",
      owner: describeMacOwner(owner, vmi.metadata.namespace ?? ""),
    });
  });
}
