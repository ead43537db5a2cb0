// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a VM's plan; each may be repeated.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  ifacesOf,
  isAppError,
  isOwnedBy,
  nicsPatch,
  withMacs,
  type VmAction,
  type VmFacts,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { JsonPatchOperation } from "@patchbay/ports";
import type { Deps } from "../../deps.ts";

async function patchVm(
  vm: VirtualMachine,
  operations: readonly JsonPatchOperation[],
  deps: Deps,
): Promise<void> {
  const patch = { type: "json", operations } as const;
  deps.ownWrites.note(await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch));
}

/** The same rule as at admission, for VMs that came past it; a running VMI's MACs are kept. */
async function setMacAddresses({ vm, vmi }: VmFacts, deps: Deps): Promise<void> {
  const path = "/spec/template/spec/domain/devices/interfaces";
  const { spec } = vm.spec.template;
  const ifaces = withMacs(spec, {
    namespace: vm.metadata.namespace ?? "",
    earlier: vmi === undefined ? [] : [vmi.spec],
    randomBytes: deps.randomBytes,
  });
  await patchVm(
    vm,
    [
      { op: "test", path, value: ifacesOf(spec) },
      { op: "replace", path, value: ifaces },
    ],
    deps,
  );
  deps.log.info("set mac addresses", { vm: printKey(keyOf(vm)) });
}

/** The cache may be behind; then what is there is looked at when the watch tells of it. */
async function isOwnThere({ vm }: VmFacts, deps: Deps): Promise<boolean> {
  const there = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, keyOf(vm));
  return there === undefined || isOwnedBy(there, vm);
}

/** @throws AppError with KUBE_ALREADY_EXISTS when a VMI of that name is not the VM's. */
async function createVmi(vmi: VirtualMachineInstance, facts: VmFacts, deps: Deps): Promise<void> {
  try {
    deps.ownWrites.note(await deps.store.create(VIRTUAL_MACHINE_INSTANCES, vmi));
    deps.log.info("created vmi", { vmi: printKey(keyOf(vmi)) });
  } catch (error) {
    const isBehind = isAppError(error, "KUBE_ALREADY_EXISTS") && (await isOwnThere(facts, deps));
    if (!isBehind) throw error;
  }
}

async function perform(action: VmAction, facts: VmFacts, deps: Deps): Promise<void> {
  const { vm, vmi } = facts;
  switch (action.kind) {
    case "setMacAddresses":
      await setMacAddresses(facts, deps);
      return;
    case "createVmi":
      await createVmi(action.vmi, facts, deps);
      return;
    case "deleteVmi":
      await deps.store.delete(VIRTUAL_MACHINE_INSTANCES, keyOf(vm), { uid: action.uid });
      return;
    case "patchVmiNics": {
      if (vmi === undefined) return;
      const operations = nicsPatch({ object: vmi, base: "/spec", spec: vmi.spec }, action.to);
      const patch = { type: "json", operations } as const;
      deps.ownWrites.note(await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch));
      return;
    }
    case "patchTemplateNics": {
      const place = { object: vm, base: "/spec/template/spec", spec: vm.spec.template.spec };
      await patchVm(vm, nicsPatch(place, action.to), deps);
    }
  }
}

/** Performs the plan in order; stops at the first failure. */
export async function actVm(plan: readonly VmAction[], facts: VmFacts, deps: Deps): Promise<void> {
  for (const action of plan) await perform(action, facts, deps);
}
