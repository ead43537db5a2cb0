// SPDX-License-Identifier: Apache-2.0
// Reads the facts about a VM.
import {
  DATA_VOLUMES,
  networkConfigOf,
  VIRTUAL_MACHINE_INSTANCES,
  type DataVolume,
  type NetworkConfig,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { usesParts, collectPartsFacts, readParts } from "@patchbay/core/instancetype";
import {
  buildDataVolumes,
  willReleaseName,
  isOwnedBy,
  vmiOf,
  vmStartProblems,
  waitsForBinding,
  type VmFacts,
} from "@patchbay/core/vm";
import { isAppError } from "@patchbay/base";
import { keyOf, parseKey, printTime } from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { findClaims } from "../vmi/observe.ts";

/** The VMI of the VM's name. Because the cache may be stale, a missing VMI is looked up on the server. */
async function findVmi(
  vm: VirtualMachine,
  key: ObjectKey,
  deps: Deps,
): Promise<VirtualMachineInstance | undefined> {
  const cached = deps.vmis.find(key);
  if (cached !== undefined) return deps.mutationCache.newest(cached);
  if (vm.status?.created !== true) return undefined;
  return deps.store.find(VIRTUAL_MACHINE_INSTANCES, key);
}

/** If the kind does not exist, its creation reports that. */
function findDataVolume(key: ObjectKey, { store }: Deps): Promise<DataVolume | undefined> {
  return store.find(DATA_VOLUMES, key).catch((error: unknown) => {
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    return undefined;
  });
}

/** The missing DataVolumes of a VM without a VMI. They are read from the server, because the kind may not exist and cannot be watched then. */
async function findMissing(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  deps: Deps,
): Promise<VmFacts["missingDataVolumes"]> {
  if (vmi !== undefined || vm.metadata.deletionTimestamp !== undefined) return [];
  const all = buildDataVolumes(vm);
  const found = await Promise.all(all.map((dataVolume) => findDataVolume(keyOf(dataVolume), deps)));
  return all.filter((_, index) => found[index] === undefined);
}

/** Instancetype and preference. Reads nothing for a VM without them. */
async function observeParts(vm: VirtualMachine, { parts }: Deps): Promise<Pick<VmFacts, "parts">> {
  if (!usesParts(vm)) return {};
  const read = await readParts(vm, parts.find.bind(parts));
  return { parts: collectPartsFacts(vm, read) };
}

/** Why the VM cannot be started. */
function findStartProblems(
  vm: VirtualMachine,
  { parts }: Pick<VmFacts, "parts">,
  network: NetworkConfig,
): VmFacts["startProblems"] {
  const wanted = parts?.expanded ?? vm;
  const problems = vmStartProblems(wanted, vmiOf(wanted, network.bindings), network);
  return [...(parts?.problems ?? []), ...problems];
}

/** The facts of a VM, including this process's own writes; undefined when it is deleted. */
export async function observeVm(key: string, deps: Deps): Promise<VmFacts | undefined> {
  const object = parseKey(key);
  const cached = deps.vms.find(object);
  if (cached === undefined) return undefined;
  const vm = deps.mutationCache.newest(cached);
  const vmi = await findVmi(vm, object, deps);
  const now = printTime(deps.clock.now());
  const network = networkConfigOf(deps.kubevirts.list()[0]);
  const parts = await observeParts(vm, deps);
  const startProblems = findStartProblems(vm, parts, network);
  const missingDataVolumes = await findMissing(parts.parts?.expanded ?? vm, vmi, deps);
  const { bindings, isStaged } = network;
  const facts = { vm, ...parts, now, startProblems, missingDataVolumes, bindings, isStaged };
  const own = vmi !== undefined && isOwnedBy(vmi, vm) ? vmi : undefined;
  const isWaiting = own !== undefined && waitsForBinding(own, findClaims(own, deps.claims));
  const hasNameConflict = own === undefined && vmi !== undefined;
  const isConflictTemporary = own === undefined && vmi !== undefined && willReleaseName(vmi, vm);
  return { ...facts, vmi: own, hasNameConflict, isConflictTemporary, waitsForBinding: isWaiting };
}
