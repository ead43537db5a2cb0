// SPDX-License-Identifier: Apache-2.0
// The VM's part of a pass: creates the VMI, and applies changes of the VM to it.
import {
  DATA_VOLUMES,
  networkConfigOf,
  VIRTUAL_MACHINE_INSTANCES,
  type DataVolume,
  type NetworkConfig,
  type VirtualMachine,
  type VirtualMachineInstance,
  CONTROLLER_REVISIONS,
  VIRTUAL_MACHINES,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { findController, type ControllerRevision } from "@patchbay/api/kubernetes";
import { withDefaultBinding } from "@patchbay/api/validate";
import {
  usesParts,
  collectPartsFacts,
  readParts,
  type RefsPlan,
} from "@patchbay/core/instancetype";
import {
  buildDataVolumes,
  willReleaseName,
  isOwnedBy,
  vmiOf,
  vmStartProblems,
  waitsForBinding,
  type VmFacts,
  type VmAction,
  nextReconcileMs,
  planVm,
} from "@patchbay/core/vm";
import { isAppError, isEqual, AppError } from "@patchbay/base";
import {
  keyOf,
  parseKey,
  printTime,
  printKey,
  after,
  done,
  earliest,
  type Next,
  runObjectSteps,
  type ObjectStepsResult,
  rethrowFirst,
} from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { findClaims } from "../vmi/index.ts";
import {
  nicsOf,
  nicsPatch,
  withPlug,
  type Nics,
  type NicsChange,
  ifacesOf,
  networksOf,
  withMacs,
} from "@patchbay/core/nics";
import {
  statusPatch,
  canDeferVmStatus,
  newSyncError,
  buildVmStatus,
  type NewVmStatus,
} from "@patchbay/core/status";
import { createUniqueVmi } from "./create-vmi.ts";

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
async function observeVm(key: string, deps: Deps): Promise<VmFacts | undefined> {
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

async function writeNics(vmi: VirtualMachineInstance, to: Nics, deps: Deps): Promise<typeof vmi> {
  const operations = nicsPatch({ object: vmi, base: "/spec", spec: vmi.spec }, to);
  const patch = { type: "json", operations } as const;
  const written = await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch);
  deps.mutationCache.note(written);
  return written;
}

function isRefusal(error: unknown): boolean {
  return isAppError(error, "KUBE_REFUSED") || isAppError(error, "KUBE_FORBIDDEN");
}

/** Writes each change on its own, so that a rejected one does not block the others. */
async function writeOneByOne(
  vmi: VirtualMachineInstance,
  { planned: kept, plugs }: NicsChange,
  deps: Deps,
): Promise<readonly unknown[]> {
  const refusals: unknown[] = [];
  let current = vmi;
  const changes = [() => kept, ...plugs.map((plug) => () => withPlug(nicsOf(current.spec), plug))];
  for (const change of changes) {
    const to = change();
    if (isEqual(nicsOf(current.spec), to)) continue;
    try {
      current = await writeNics(current, to, deps);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      refusals.push(error);
    }
  }
  return refusals;
}

/** Writes the change at once, or in parts if that is rejected. @throws AggregateError with the rejections */
async function changeNics(
  vmi: VirtualMachineInstance,
  change: NicsChange,
  deps: Deps,
): Promise<void> {
  const { planned: kept, plugs } = change;
  try {
    await writeNics(vmi, plugs.reduce(withPlug, kept), deps);
  } catch (error) {
    const parts = plugs.length + (isEqual(nicsOf(vmi.spec), kept) ? 0 : 1);
    if (!isRefusal(error) || parts < 2) throw error;
    const refusals = await writeOneByOne(vmi, change, deps);
    if (refusals.length > 0) throw new AggregateError(refusals, "some changes were rejected");
  }
}

/** An existing revision is fine if it belongs to this VM. A deleted VM of the same name leaves its own behind for a moment. */
async function createRevision(
  vm: VirtualMachine,
  revision: ControllerRevision,
  { store, log }: Deps,
): Promise<void> {
  try {
    await store.create(CONTROLLER_REVISIONS, revision);
    log.info("stored revision", { vm: printKey(keyOf(vm)), revision: revision.metadata.name });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
    const existing = await store.find(CONTROLLER_REVISIONS, keyOf(revision));
    if (existing === undefined || findController(existing)?.uid !== vm.metadata.uid) throw error;
  }
}

/** Creates the revisions, then refers to them in the VM's status. */
async function storeParts(vm: VirtualMachine, plan: RefsPlan, deps: Deps): Promise<void> {
  for (const revision of plan.revisions) await createRevision(vm, revision, deps);
  const operations = statusPatch(deps.mutationCache.newest(vm), plan.refs);
  const patch = { type: "json", operations } as const;
  const options = { subresource: "status" } as const;
  deps.mutationCache.note(await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, options));
}

async function patchVm(
  vm: VirtualMachine,
  operations: readonly JsonPatchOperation[],
  deps: Deps,
): Promise<void> {
  const patch = { type: "json", operations } as const;
  deps.mutationCache.note(await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch));
}

/** Applies admission's rule to VMs that bypassed it. Keeps the MACs of a running VMI. */
async function setMacAddresses({ vm, vmi }: VmFacts, deps: Deps): Promise<void> {
  const path = "/spec/template/spec/domain/devices/interfaces";
  const { spec } = vm.spec.template;
  const ifaces = withMacs(spec, {
    namespace: vm.metadata.namespace ?? "",
    earlier: vmi === undefined ? [] : [vmi.spec],
    randomBytes: deps.randomBytes,
  }).map((iface) => withDefaultBinding(iface, networksOf(spec)));
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

async function createVmi(vmi: VirtualMachineInstance, facts: VmFacts, deps: Deps): Promise<void> {
  try {
    deps.mutationCache.note(await createUniqueVmi(vmi, deps));
    deps.log.info("created vmi", { vmi: printKey(keyOf(vmi)) });
    const message = `Started the virtual machine by creating the virtual machine instance ${vmi.metadata.name}`;
    deps.events.record(facts.vm, { type: "Normal", reason: "SuccessfulCreate", message });
  } catch (error) {
    // The cache is stale; the watch will deliver the existing VMI.
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

/** @throws AppError with CONTROLLER_NO_DATA_VOLUMES if the kind does not exist */
async function createDataVolume(dataVolume: DataVolume, deps: Deps): Promise<void> {
  const object = printKey(keyOf(dataVolume));
  try {
    await deps.store.create(DATA_VOLUMES, dataVolume);
    deps.log.info("created data volume", { dataVolume: object });
  } catch (error) {
    if (isAppError(error, "KUBE_ALREADY_EXISTS")) return;
    if (isAppError(error, "KUBE_NOT_FOUND")) {
      throw new AppError("CONTROLLER_NO_DATA_VOLUMES", { object });
    }
    throw error;
  }
}

async function deleteVmi(vm: VirtualMachine, uid: string, deps: Deps): Promise<void> {
  await deps.store.delete(VIRTUAL_MACHINE_INSTANCES, keyOf(vm), { uid });
  const message = `Stopped the virtual machine by deleting the virtual machine instance ${vm.metadata.name}`;
  deps.events.record(vm, { type: "Normal", reason: "SuccessfulDelete", message });
}

async function performOne(action: VmAction, facts: VmFacts, deps: Deps): Promise<void> {
  const { vm, vmi } = facts;
  switch (action.kind) {
    case "keepParts":
      await storeParts(vm, action.plan, deps);
      return;
    case "setMacAddresses":
      await setMacAddresses(facts, deps);
      return;
    case "createDataVolume":
      await createDataVolume(action.dataVolume, deps);
      return;
    case "createVmi":
      await createVmi(action.vmi, facts, deps);
      return;
    case "deleteVmi":
      await deleteVmi(vm, action.uid, deps);
      return;
    case "patchVmiNics":
      if (vmi !== undefined) await changeNics(vmi, action.change, deps);
      return;
    case "patchTemplateNics": {
      const place = { object: vm, base: "/spec/template/spec", spec: vm.spec.template.spec };
      await patchVm(vm, nicsPatch(place, action.to), deps);
    }
  }
}

/** The inputs of the steps include what the API server validates against. */
function actVm(plan: readonly VmAction[], facts: VmFacts, deps: Deps): Promise<ObjectStepsResult> {
  const { vm, vmi, hasNameConflict } = facts;
  const inputs = [vm.metadata.generation, vmi?.metadata.generation, hasNameConflict].join(" ");
  const perform = (action: VmAction): Promise<void> => performOne(action, facts, deps);
  return runObjectSteps({ object: vm, plan, inputs, perform }, deps);
}

/** How much longer the status write can wait, milliseconds; 0 if it cannot. */
function findDelayMs({ vm, vmi }: VmFacts, next: NewVmStatus, deps: Deps): number {
  const { uid = "" } = vm.metadata;
  // This pass or the watch may have a newer VMI than the facts.
  const current = vmi && deps.mutationCache.newest(deps.vmis.find(keyOf(vmi)) ?? vmi);
  return canDeferVmStatus(vm, current, next) ? deps.deferrals.remainingMs(uid) : 0;
}

/** Writes the status at most once, and records new sync errors. Returns the milliseconds until the next pass if the write was deferred. */
async function reportVm(
  facts: VmFacts,
  { failures }: ObjectStepsResult,
  deps: Deps,
): Promise<number | undefined> {
  const { vm, now } = facts;
  if (vm.metadata.deletionTimestamp !== undefined && vm.metadata.finalizers === undefined) {
    return undefined;
  }
  const next = buildVmStatus({ ...facts, failures }, now);
  const operations = statusPatch(deps.mutationCache.newest(vm), next);
  const remainingMs = operations.length === 0 ? 0 : findDelayMs(facts, next, deps);
  if (remainingMs > 0) return remainingMs;
  deps.deferrals.end(vm.metadata.uid ?? "");
  if (operations.length === 0) return undefined;
  const patch = { type: "json", operations } as const;
  deps.mutationCache.note(
    await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, { subresource: "status" }),
  );
  const syncError = newSyncError(vm.status?.conditions, next.conditions);
  if (syncError !== undefined) deps.events.record(vm, { type: "Warning", ...syncError });
  return undefined;
}

export async function reconcileVm(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVm(key, deps);
  if (facts === undefined) return done();
  const performed = await actVm(planVm(facts), facts, deps);
  const reportMs = await reportVm(facts, performed, deps);
  rethrowFirst(performed);
  // Nothing wakes the VM when its DataVolumes exist.
  const areVolumesCreated = facts.missingDataVolumes.length > 0 && performed.failures.length === 0;
  const nextMs = earliest([
    performed.retryInMs,
    reportMs,
    areVolumesCreated ? 0 : nextReconcileMs(facts),
  ]);
  return nextMs === undefined ? done() : after(nextMs);
}
