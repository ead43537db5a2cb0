// SPDX-License-Identifier: Apache-2.0
// Reconciliation of a VM. Creates its VMI, and applies changes of the VM to the VMI.
import {
  DATA_VOLUMES,
  networkConfigOf,
  RESOURCE_CLAIM_TEMPLATES,
  VIRTUAL_MACHINE_INSTANCES,
  type DataVolume,
  type NetworkConfig,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
  CONTROLLER_REVISIONS,
  VIRTUAL_MACHINES,
} from "@patchbay/api";
import { authorizeSource } from "./clone-source.ts";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { findController, type ControllerRevision, type KubeObject } from "@patchbay/api/kubernetes";
import { withDefaultBinding } from "@patchbay/api/validate";
import {
  usesInstancetype,
  collectInstancetypeFacts,
  readInstancetypes,
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
import { findClaims, findWhole } from "../vmi/index.ts";
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

/** Finds the VMI with the VM's name. If the cache lacks the VMI but the VM's status has `created`, reads the VMI from the API server. */
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

/** Reads the object. Returns undefined if it does not exist, or if the cluster does not serve its kind. */
function findIfServed<T extends KubeObject>(
  store: Deps["store"],
  type: ResourceType<T>,
  key: ObjectKey,
): Promise<T | undefined> {
  return store.find(type, key).catch((error: unknown) => {
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
    return undefined;
  });
}

/** Uses no cache, because clusters without CDI do not serve DataVolumes. There, all count as missing, and {@link createDataVolume} fails. */
async function findMissingDataVolumes(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  deps: Deps,
): Promise<VmFacts["missingDataVolumes"]> {
  if (vmi !== undefined || vm.metadata.deletionTimestamp !== undefined) return [];
  const dataVolumes = buildDataVolumes(vm);
  const found = await Promise.all(
    dataVolumes.map((dataVolume) => findIfServed(deps.store, DATA_VOLUMES, keyOf(dataVolume))),
  );
  return dataVolumes.filter((_, index) => found[index] === undefined);
}

/** Returns the configured claims for NICs plugged later; none if the VM has a VMI or its namespace lacks the ResourceClaimTemplate. */
async function observeClaimSlots(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  { claimSlots, store }: Pick<NetworkConfig, "claimSlots"> & Pick<Deps, "store">,
): Promise<Pick<VmFacts, "claimSlots">> {
  if (claimSlots === undefined || vmi !== undefined) return {};
  const { namespace = "" } = vm.metadata;
  const key = { namespace, name: claimSlots.resourceClaimTemplateName };
  const template = await findIfServed(store, RESOURCE_CLAIM_TEMPLATES, key);
  return template === undefined ? {} : { claimSlots };
}

async function observeInstancetypes(
  vm: VirtualMachine,
  { instancetypes }: Deps,
): Promise<Pick<VmFacts, "instancetypes">> {
  if (!usesInstancetype(vm)) return {};
  const foundInstancetypes = await readInstancetypes(vm, instancetypes.find.bind(instancetypes));
  return { instancetypes: collectInstancetypeFacts(vm, foundInstancetypes) };
}

function findStartProblems(
  vm: VirtualMachine,
  { instancetypes }: Pick<VmFacts, "instancetypes">,
  network: NetworkConfig,
): VmFacts["startProblems"] {
  const expandedVm = instancetypes?.expanded ?? vm;
  const problems = vmStartProblems(expandedVm, vmiOf(expandedVm, network.bindings), network);
  return [...(instancetypes?.problems ?? []), ...problems];
}

async function observeVm(key: string, deps: Deps): Promise<VmFacts | undefined> {
  const object = parseKey(key);
  const cached = deps.vms.find(object);
  if (cached === undefined) return undefined;
  const newest = deps.mutationCache.newest(cached);
  const vmi = await findVmi(newest, object, deps);
  const needsTemplate = vmi === undefined || usesInstancetype(newest);
  const vm = needsTemplate ? await findWhole(VIRTUAL_MACHINES, newest, deps) : newest;
  if (vm === undefined) return undefined;
  const now = printTime(deps.clock.now());
  const network = networkConfigOf(deps.kubevirts.list()[0]);
  const instancetypeFacts = await observeInstancetypes(vm, deps);
  const startProblems = findStartProblems(vm, instancetypeFacts, network);
  const missingDataVolumes = await findMissingDataVolumes(
    instancetypeFacts.instancetypes?.expanded ?? vm,
    vmi,
    deps,
  );
  const { bindings, isStaged, claimSlots } = network;
  const facts = {
    vm,
    ...instancetypeFacts,
    ...(await observeClaimSlots(vm, vmi, { ...deps, ...(claimSlots && { claimSlots }) })),
    now,
    startProblems,
    missingDataVolumes,
    bindings,
    isStaged,
  };
  const ownVmi = vmi !== undefined && isOwnedBy(vmi, vm) ? vmi : undefined;
  const isWaiting =
    ownVmi !== undefined && waitsForBinding(ownVmi, findClaims(ownVmi, deps.claims));
  const hasNameConflict = ownVmi === undefined && vmi !== undefined;
  const isConflictTemporary = ownVmi === undefined && vmi !== undefined && willReleaseName(vmi, vm);
  return {
    ...facts,
    vmi: ownVmi,
    podNetwork: deps.podNetwork,
    hasNameConflict,
    isConflictTemporary,
    waitsForBinding: isWaiting,
  };
}

async function writeNics(vmi: VirtualMachineInstance, nics: Nics, deps: Deps): Promise<typeof vmi> {
  const operations = toNicsPatch({ object: vmi, base: "/spec", spec: vmi.spec }, nics);
  const patch = { type: "json", operations } as const;
  const written = await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch);
  deps.mutationCache.note(written);
  return written;
}

function isRejection(error: unknown): boolean {
  return isAppError(error, "KUBE_REFUSED") || isAppError(error, "KUBE_FORBIDDEN");
}

/** Writes each change separately, so that a rejected change does not block other changes. Returns the rejections. */
async function writeOneByOne(
  vmi: VirtualMachineInstance,
  { planned, plugs }: NicsChange,
  deps: Deps,
): Promise<readonly unknown[]> {
  const rejections: unknown[] = [];
  let current = vmi;
  const changes = [
    () => planned,
    ...plugs.map((plug) => () => withPlug(nicsOf(current.spec), plug)),
  ];
  for (const change of changes) {
    const nics = change();
    if (isEqual(nicsOf(current.spec), nics)) continue;
    try {
      current = await writeNics(current, nics, deps);
    } catch (error) {
      if (!isRejection(error)) throw error;
      rejections.push(error);
    }
  }
  return rejections;
}

/** Writes all changes in one patch, or separately if it is rejected. @throws AggregateError with the rejections of separate writes */
async function changeNics(
  vmi: VirtualMachineInstance,
  change: NicsChange,
  deps: Deps,
): Promise<void> {
  const { planned, plugs } = change;
  try {
    await writeNics(vmi, plugs.reduce(withPlug, planned), deps);
  } catch (error) {
    const changeCount = plugs.length + (isEqual(nicsOf(vmi.spec), planned) ? 0 : 1);
    if (!isRejection(error) || changeCount < 2) throw error;
    const rejections = await writeOneByOne(vmi, change, deps);
    if (rejections.length > 0) throw new AggregateError(rejections, "some changes were rejected");
  }
}

/** Creates the revision. Accepts an existing revision of this VM, but not of a deleted VM with the same name. */
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

async function storeInstancetypeRefs(
  vm: VirtualMachine,
  plan: RefsPlan,
  deps: Deps,
): Promise<void> {
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

/** Sets MACs and bindings of a VM that bypassed admission. Retains the MACs of a running VMI. */
async function setMacAddresses({ vm, vmi, bindings }: VmFacts, deps: Deps): Promise<void> {
  const path = "/spec/template/spec/domain/devices/interfaces";
  const { spec } = vm.spec.template;
  const ifaces = withMacs(spec, {
    namespace: vm.metadata.namespace ?? "",
    bindings,
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
    // Ignores the error if the VMI exists but is not in the cache yet. The VMI's watch event triggers another reconcile pass.
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

/** @throws AppError with CONTROLLER_NO_DATA_VOLUMES if the cluster does not serve the kind, or with an error code of authorizeSource */
async function createDataVolume(
  dataVolume: DataVolume,
  vm: VirtualMachine,
  deps: Deps,
): Promise<void> {
  const object = printKey(keyOf(dataVolume));
  const authorized = await authorizeSource(dataVolume, vm.spec.template.spec, deps.store);
  try {
    await deps.store.create(DATA_VOLUMES, authorized);
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
      await storeInstancetypeRefs(vm, action.plan, deps);
      return;
    case "setMacAddresses":
      await setMacAddresses(facts, deps);
      return;
    case "createDataVolume":
      await createDataVolume(action.dataVolume, vm, deps);
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

/** Runs the steps. A change of the VM, its VMI or `hasNameConflict` resets the backoff, because it may have fixed the cause. */
function actVm(plan: readonly VmAction[], facts: VmFacts, deps: Deps): Promise<ObjectStepsResult> {
  const { vm, vmi, hasNameConflict } = facts;
  const inputs = [vm.metadata.generation, vmi?.metadata.generation, hasNameConflict].join(" ");
  const perform = (action: VmAction): Promise<void> => performOne(action, facts, deps);
  return runObjectSteps({ object: vm, plan, inputs, perform }, deps);
}

function findDelayMs({ vm, vmi }: VmFacts, status: NewVmStatus, deps: Deps): number {
  const { uid = "" } = vm.metadata;
  // `vmi` may be outdated: this pass may have written a newer version, or a watch event may have delivered one.
  const newestVmi = vmi && deps.mutationCache.newest(deps.vmis.find(keyOf(vmi)) ?? vmi);
  return canDeferVmStatus(vm, newestVmi, status) ? deps.deferrals.remainingMs(uid) : 0;
}

/** Writes the status and records new sync errors. Returns the remaining milliseconds if the write is deferred. */
async function reportVm(
  facts: VmFacts,
  { failures }: ObjectStepsResult,
  deps: Deps,
): Promise<number | undefined> {
  const { vm, now } = facts;
  if (vm.metadata.deletionTimestamp !== undefined && vm.metadata.finalizers === undefined) {
    return undefined;
  }
  const status = buildVmStatus({ ...facts, failures }, now);
  const operations = statusPatch(deps.mutationCache.newest(vm), status);
  const remainingMs = operations.length === 0 ? 0 : findDelayMs(facts, status, deps);
  if (remainingMs > 0) return remainingMs;
  deps.deferrals.end(vm.metadata.uid ?? "");
  if (operations.length === 0) return undefined;
  const patch = { type: "json", operations } as const;
  deps.mutationCache.note(
    await deps.store.patch(VIRTUAL_MACHINES, keyOf(vm), patch, { subresource: "status" }),
  );
  const syncError = newSyncError(vm.status?.conditions, status.conditions);
  if (syncError !== undefined) deps.events.record(vm, { type: "Warning", ...syncError });
  return undefined;
}

export async function reconcileVm(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVm(key, deps);
  if (facts === undefined) return done();
  const performed = await actVm(planVm(facts), facts, deps);
  const reportMs = await reportVm(facts, performed, deps);
  rethrowFirst(performed);
  // virt-controller does not watch DataVolumes, so it must reconcile the VM again to observe DataVolumes that it just created.
  const areVolumesCreated = facts.missingDataVolumes.length > 0 && performed.failures.length === 0;
  const nextMs = earliest([
    performed.retryInMs,
    reportMs,
    areVolumesCreated ? 0 : nextReconcileMs(facts),
  ]);
  return nextMs === undefined ? done() : after(nextMs);
}
