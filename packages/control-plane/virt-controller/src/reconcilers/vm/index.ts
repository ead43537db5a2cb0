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
  toNicsPatch,
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

/** Finds the VMI with the VM's name. Reads it from the server if the cache, which may be stale, lacks it. */
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

/** Finds the DataVolume; undefined if its kind does not exist, which its creation reports. */
function findDataVolume(key: ObjectKey, { store }: Deps): Promise<DataVolume | undefined> {
  return store.find(DATA_VOLUMES, key).catch((error: unknown) => {
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    return undefined;
  });
}

/** Returns the missing DataVolumes of a VM without a VMI. Reads the server, because a kind that may be missing cannot be watched. */
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

/** Reads the facts of instancetype and preference; none for a VM without them. */
async function observeParts(vm: VirtualMachine, { parts }: Deps): Promise<Pick<VmFacts, "parts">> {
  if (!usesParts(vm)) return {};
  const read = await readParts(vm, parts.find.bind(parts));
  return { parts: collectPartsFacts(vm, read) };
}

/** Returns why the VM cannot be started. */
function findStartProblems(
  vm: VirtualMachine,
  { parts }: Pick<VmFacts, "parts">,
  network: NetworkConfig,
): VmFacts["startProblems"] {
  const wanted = parts?.expanded ?? vm;
  const problems = vmStartProblems(wanted, vmiOf(wanted, network.bindings), network);
  return [...(parts?.problems ?? []), ...problems];
}

/** Reads the facts of a VM, including this process's own writes; undefined if it is deleted. */
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
  const operations = toNicsPatch({ object: vmi, base: "/spec", spec: vmi.spec }, to);
  const patch = { type: "json", operations } as const;
  const written = await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch);
  deps.mutationCache.note(written);
  return written;
}

function isRejection(error: unknown): boolean {
  return isAppError(error, "KUBE_REFUSED") || isAppError(error, "KUBE_FORBIDDEN");
}

/** Writes each change separately, so that a rejected one does not block other changes. Returns the rejections. */
async function writeOneByOne(
  vmi: VirtualMachineInstance,
  { planned: kept, plugs }: NicsChange,
  deps: Deps,
): Promise<readonly unknown[]> {
  const rejections: unknown[] = [];
  let current = vmi;
  const changes = [() => kept, ...plugs.map((plug) => () => withPlug(nicsOf(current.spec), plug))];
  for (const change of changes) {
    const to = change();
    if (isEqual(nicsOf(current.spec), to)) continue;
    try {
      current = await writeNics(current, to, deps);
    } catch (error) {
      if (!isRejection(error)) throw error;
      rejections.push(error);
    }
  }
  return rejections;
}

/** Writes all changes at once, or separately after a rejection. @throws AggregateError with the rejections */
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
    if (!isRejection(error) || parts < 2) throw error;
    const rejections = await writeOneByOne(vmi, change, deps);
    if (rejections.length > 0) throw new AggregateError(rejections, "some changes were rejected");
  }
}

/** Creates the revision, or reuses an existing one of this VM. A deleted VM of the same name leaves its revision for a moment. */
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

/** Creates the revisions, and then refers to them in the VM's status. */
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

/** Sets the MACs and bindings that admission sets, for VMs that bypassed it. Retains the MACs of a running VMI. */
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
    // The cache is stale, and a watch event will add the existing VMI.
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
    case "storeRevisions":
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
      await patchVm(vm, toNicsPatch(place, action.to), deps);
    }
  }
}

/** Runs the steps. Their inputs include the generations, because the API server validates the steps against the specifications. */
function actVm(plan: readonly VmAction[], facts: VmFacts, deps: Deps): Promise<ObjectStepsResult> {
  const { vm, vmi, hasNameConflict } = facts;
  const inputs = [vm.metadata.generation, vmi?.metadata.generation, hasNameConflict].join(" ");
  const perform = (action: VmAction): Promise<void> => performOne(action, facts, deps);
  return runObjectSteps({ object: vm, plan, inputs, perform }, deps);
}

/** Returns for how many more milliseconds the status write can be deferred. */
function findDelayMs({ vm, vmi }: VmFacts, next: NewVmStatus, deps: Deps): number {
  const { uid = "" } = vm.metadata;
  // This pass or the watch may have a newer VMI than the facts.
  const current = vmi && deps.mutationCache.newest(deps.vmis.find(keyOf(vmi)) ?? vmi);
  return canDeferVmStatus(vm, current, next) ? deps.deferrals.remainingMs(uid) : 0;
}

/** Writes the status unless it is deferred, and records new sync errors. Returns the milliseconds until the next pass if deferred. */
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
  // No event wakes the VM after the creation of its DataVolumes.
  const areVolumesCreated = facts.missingDataVolumes.length > 0 && performed.failures.length === 0;
  const nextMs = earliest([
    performed.retryInMs,
    reportMs,
    areVolumesCreated ? 0 : nextReconcileMs(facts),
  ]);
  return nextMs === undefined ? done() : after(nextMs);
}
