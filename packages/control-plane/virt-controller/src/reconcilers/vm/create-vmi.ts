// SPDX-License-Identifier: Apache-2.0
// Creates a VM's VMI unless another guest uses one of its MACs. Reads the server, because admission's caches miss concurrent starts.
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

/** Index of VMs and VMIs by MAC, lower case with colons. */
export const BY_MAC = "mac";

function toOwner({ metadata, spec }: VirtualMachineInstance): MacOwner {
  return { namespace: metadata.namespace ?? "", name: metadata.name, spec };
}

/** Returns the keys of the VMIs that may have one of the MACs. A VMI has the name of its VM. */
function listCandidates(own: VirtualMachineInstance, deps: CreationDeps): readonly string[] {
  const owners = listMacs(own.spec).flatMap((mac) => [
    ...deps.vms.listBy(BY_MAC, mac),
    ...deps.vmis.listBy(BY_MAC, mac),
  ]);
  const keys = new Set(owners.map((owner) => printKey(keyOf(owner))));
  keys.delete(printKey(keyOf(own)));
  return [...keys].sort();
}

/** Returns the VMI's first MAC that a guest of another VM has on the same segment. */
async function findRunningTwin(
  own: VirtualMachineInstance,
  deps: CreationDeps,
): Promise<MacConflict | undefined> {
  const segmentOf = (network: string): string =>
    findSharedLink(deps.nads.find(parseKey(network))?.spec?.config) ?? network;
  for (const key of listCandidates(own, deps)) {
    const other = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, parseKey(key));
    if (other === undefined || isVmiFinal(other)) continue;
    const [twin] = findMacConflicts(toOwner(own), [toOwner(other)], segmentOf);
    if (twin !== undefined) return twin;
  }
  return undefined;
}

/** Locks the MACs one after another. Callers sort them to prevent deadlocks. */
function withLockedMacs<T>(
  mutex: KeyedMutex,
  [first, ...others]: readonly string[],
  work: () => Promise<T>,
): Promise<T> {
  if (first === undefined) return work();
  return mutex.runExclusive(first, () => withLockedMacs(mutex, others, work));
}

/** Creates the VMI. @throws AppError with CONTROLLER_MAC_IN_USE, and the server's errors */
export function createUniqueVmi(
  vmi: VirtualMachineInstance,
  deps: CreationDeps,
): Promise<VirtualMachineInstance> {
  const macs = [...new Set(listMacs(vmi.spec))].sort();
  return withLockedMacs(deps.macMutex, macs, async () => {
    const twin = await findRunningTwin(vmi, deps);
    if (twin === undefined) return deps.store.create(VIRTUAL_MACHINE_INSTANCES, vmi);
    const { mac, network, owner } = twin;
    throw new AppError("CONTROLLER_MAC_IN_USE", {
      mac,
      network,
      interface: ifacesOf(vmi.spec)[twin.index]?.name ?? "",
      owner: describeMacOwner(owner, vmi.metadata.namespace ?? ""),
    });
  });
}
