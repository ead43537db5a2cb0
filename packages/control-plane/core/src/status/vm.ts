// SPDX-License-Identifier: Apache-2.0
import {
  isAbsent,
  isVmiFinal,
  type StartFailure,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmStatus,
  type PcieTopology,
} from "@patchbay/api";
import { TOPOLOGY_VERSION } from "@patchbay/domain";
import { listRetainedAddresses } from "../nics/addresses/retained-addresses.ts";
import { findByName, ifacesOf } from "../nics/nics.ts";
import { openMigration } from "../migration/owner.ts";
import { collectRetainedMacs } from "../nics/mac.ts";
import { readRecordedTopology } from "../nics/pcie/devices.ts";
import { decideRun, findRecordedStrategy, collectRunFacts } from "../vm/run-strategy.ts";
import { trackStartFailure } from "../vm/start-failure.ts";
import {
  findCondition,
  PAUSED,
  READY,
  SYNCHRONIZED,
  withTransitionTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import { buildNextVmHistory } from "../history/of-vm.ts";
import { listRestartRequiredFields } from "./restart-required.ts";
import {
  buildSynchronizedCondition,
  findVmSyncError,
  type SyncError,
  type VmStatusFacts,
} from "./sync-error.ts";
import { isEqual } from "@patchbay/base";
import { isEndedOrDeleting } from "../requests/ifaces.ts";

/** Condition type. Source: KubeVirt VirtualMachineRestartRequired. */
const RESTART_REQUIRED = "RestartRequired";
const OWN_CONDITIONS: readonly string[] = [READY, SYNCHRONIZED, RESTART_REQUIRED];

/** Values of `printableStatus` by the sync error's reason. Any other reason is used unchanged. */
const PRINTABLE_STATUS: Readonly<Record<string, string>> = {
  UnsupportedSpec: "ErrorUnsupportedSpec",
  FailedCreate: "ErrorCreateRefused",
  NameTaken: "ErrorNameTaken",
  Unschedulable: "ErrorUnschedulable",
  FailedPvcNotFound: "ErrorPvcNotFound",
  FailedDataVolumeNotFound: "ErrorDataVolumeNotFound",
  UnauthorizedDataVolumeCreate: "ErrorCreateRefused",
  FailedFindInstancetype: "ErrorInstancetypeNotFound",
  FailedFindPreference: "ErrorPreferenceNotFound",
  DataVolumeNotReady: "Provisioning",
  DiskNotPrepared: "ErrorDiskNotPrepared",
  FailedUpdate: "Starting",
  FailedDelete: "Starting",
  FailedPodPatch: "Starting",
  HotPlugNetworkInterfaceError: "Starting",
};

interface PrintableStatusFacts {
  readonly syncError: SyncError | undefined;
  readonly startFailure: StartFailure | undefined;
  readonly waitsForBinding: boolean;
}

function findStartStatus(syncError: SyncError | undefined): string {
  return syncError === undefined
    ? "Starting"
    : (PRINTABLE_STATUS[syncError.reason] ?? syncError.reason);
}

function findVmiStartStatus({ syncError, waitsForBinding }: PrintableStatusFacts): string {
  return syncError === undefined && waitsForBinding
    ? "WaitingForVolumeBinding"
    : findStartStatus(syncError);
}

function findStatusWithoutVmi(
  vm: VirtualMachine,
  { syncError, startFailure }: PrintableStatusFacts,
): string {
  const { step } = decideRun(collectRunFacts(vm, undefined));
  if (step !== "start") return "Stopped";
  const pauses = syncError === undefined && startFailure !== undefined;
  return pauses ? "CrashLoopBackOff" : findStartStatus(syncError);
}

function findRunningStatus(vmi: VirtualMachineInstance): string | undefined {
  const { status } = vmi;
  if (status?.phase === "Unknown") return status.phase;
  if (openMigration(vmi) !== undefined) return "Migrating";
  if (findCondition(status?.conditions, PAUSED)?.status === "True") return "Paused";
  return status?.phase === "Running" ? "Running" : undefined;
}

/** Returns `printableStatus`. Source: KubeVirt VirtualMachinePrintableStatus. */
function choosePrintableStatus(
  { vm, vmi }: VmStatusFacts,
  printableFacts: PrintableStatusFacts,
): string {
  if (vm.metadata.deletionTimestamp !== undefined) return "Terminating";
  if (vmi === undefined) return findStatusWithoutVmi(vm, printableFacts);
  if (isVmiFinal(vmi))
    return printableFacts.startFailure === undefined ? "Stopped" : "CrashLoopBackOff";
  const isStopped = decideRun(collectRunFacts(vm, vmi)).step === "stop";
  if (isStopped || vmi.metadata.deletionTimestamp !== undefined) return "Stopping";
  return findRunningStatus(vmi) ?? findVmiStartStatus(printableFacts);
}

/** Copies the VMI's condition Ready. If there is no VMI or condition, returns status False. Source: KubeVirt syncReadyConditionFromVMI. */
function buildReadyCondition(vmi: VirtualMachineInstance | undefined): NewCondition {
  if (vmi === undefined) {
    const message = "VMI does not exist";
    return { type: READY, status: "False", reason: "VMINotExists", message };
  }
  const vmiCondition = findCondition(vmi.status?.conditions, READY);
  if (vmiCondition !== undefined) return vmiCondition;
  const message = "VMI is missing the Ready condition";
  return { type: READY, status: "False", reason: "VMIConditionMissing", message };
}

/** Lists fields whose changes require a restart. Empty while an instancetype or preference is missing. */
function listChangedFields(situation: VmStatusFacts): readonly string[] {
  const { vm, vmi, instancetypes } = situation;
  if (vmi === undefined || (instancetypes?.missing ?? []).length > 0) return [];
  return listRestartRequiredFields(instancetypes?.expanded ?? vm, vmi, situation);
}

function buildRestartRequired(situation: VmStatusFacts): readonly NewCondition[] {
  const fields = listChangedFields(situation);
  if (fields.length === 0) return [];
  const message = `changed fields take effect at the next start: ${fields.join(", ")}`;
  return [{ type: RESTART_REQUIRED, status: "True", reason: "NonLiveFieldsChanged", message }];
}

function listConditions(
  situation: VmStatusFacts,
  syncError: SyncError | undefined,
  now: string,
): Conditions {
  const { vm, vmi } = situation;
  const ownConditions = [
    buildReadyCondition(vmi),
    ...buildRestartRequired(situation),
    ...buildSynchronizedCondition(syncError),
  ];
  const copiedConditions = (vmi?.status?.conditions ?? []).filter(
    ({ type }) => !OWN_CONDITIONS.includes(type),
  );
  return [...withTransitionTimes(ownConditions, vm.status?.conditions, now), ...copiedConditions];
}

/** Returns the version of the PCI layout. The VMI's version takes precedence, because the guest may already use that version. */
function findTopologyVersion(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): number {
  const recordedVersion = vmi === undefined ? undefined : readRecordedTopology(vmi)?.version;
  return recordedVersion ?? vm.status?.pcieTopology?.version ?? TOPOLOGY_VERSION;
}

/** Builds the PCI addresses of interfaces and other devices. The VMI's addresses take precedence over those in the VM's status. */
function buildTopologyFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): Pick<VmStatus, "pcieTopology"> {
  const oldTopology = vm.status?.pcieTopology;
  const interfaces = ifacesOf(vm.spec.template.spec).flatMap((iface) => {
    const reportedAddress = findByName(vmi?.status?.interfaces, iface.name)?.pciAddress;
    const pciAddress =
      reportedAddress ?? findByName(oldTopology?.interfaces, iface.name)?.pciAddress;
    return isAbsent(iface) || pciAddress === undefined ? [] : [{ name: iface.name, pciAddress }];
  });
  const recordedDevices = vmi === undefined ? undefined : readRecordedTopology(vmi)?.devices;
  const devices = recordedDevices ?? oldTopology?.devices;
  if (oldTopology === undefined && interfaces.length === 0 && devices === undefined) return {};
  const deviceField = devices === undefined ? {} : { devices };
  return { pcieTopology: { version: findTopologyVersion(vm, vmi), interfaces, ...deviceField } };
}

function buildRunFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): Pick<NewVmStatus, "runStrategy" | "startFailure" | "stateChangeRequests"> {
  const facts = collectRunFacts(vm, vmi);
  const { requests } = decideRun(facts);
  return {
    runStrategy: findRecordedStrategy(facts),
    startFailure: trackStartFailure(vm, vmi, now),
    stateChangeRequests: requests.length === 0 ? undefined : [...requests],
  };
}

/** Fields of a VM's status that virt-controller writes. The status patch removes each field that is undefined here. */
export type NewVmStatus = { readonly [K in keyof VmStatus]: VmStatus[K] | undefined };

export function buildVmStatus(situation: VmStatusFacts, now: string): NewVmStatus {
  const { vm, vmi, bindings, waitsForBinding } = situation;
  const macs = collectRetainedMacs(vm, vmi, bindings);
  const addresses = listRetainedAddresses(vm, vmi);
  const syncError = findVmSyncError(situation);
  const conditions = listConditions(situation, syncError, now);
  const runFieldValues = buildRunFields(vm, vmi, now);
  const { startFailure } = runFieldValues;
  const next = {
    created: vmi !== undefined,
    ready: findCondition(conditions, READY)?.status === "True",
    printableStatus: choosePrintableStatus(situation, { syncError, startFailure, waitsForBinding }),
    conditions,
    ipAddresses: addresses.length === 0 ? undefined : [...addresses],
    macAddresses: macs.length === 0 ? undefined : [...macs],
    ...buildTopologyFields(vm, vmi),
    ...runFieldValues,
    observedGeneration: vm.metadata.generation ?? 0,
  };
  return { ...next, interfaceHistory: buildNextVmHistory({ vm, vmi }, next, now) };
}

/** Fields whose changes need not be written immediately during a plug or unplug, except new IP addresses, MACs and PCI addresses. */
const DEFERRABLE_FIELDS: readonly string[] = [
  "ipAddresses",
  "macAddresses",
  "pcieTopology",
  "observedGeneration",
  "interfaceHistory",
];

function isPending(vmi: VirtualMachineInstance, name: string): boolean {
  return findByName(vmi.status?.interfaces, name)?.hotplug?.phase !== "Ready";
}

function isChanging(vm: VirtualMachine, vmi: VirtualMachineInstance): boolean {
  if (vmi.status?.phase !== "Running" || isEndedOrDeleting(vmi)) return false;
  return (
    ifacesOf(vm.spec.template.spec).some(isAbsent) ||
    ifacesOf(vmi.spec).some((iface) => isAbsent(iface) || isPending(vmi, iface.name))
  );
}

function hasNoNewEntry(oldEntries: readonly unknown[] = [], newEntries: readonly unknown[] = []) {
  return newEntries.every((entry) => oldEntries.some((oldEntry) => isEqual(oldEntry, entry)));
}

/** Checks whether the topologies differ at most by removed interfaces. Any other change must be written immediately; a removal can wait. */
function hasNoNewAddress(
  oldTopology: PcieTopology | undefined,
  next: PcieTopology | undefined,
): boolean {
  if (oldTopology === undefined || next === undefined) return oldTopology === next;
  const { interfaces: oldInterfaces, ...others } = oldTopology;
  const { interfaces: newInterfaces, ...otherNext } = next;
  return isEqual(others, otherNext) && hasNoNewEntry(oldInterfaces, newInterfaces);
}

/** Checks whether the write of `next` can wait, because a plug or unplug is in progress and only deferrable fields change. */
export function canDeferVmStatus(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  next: NewVmStatus,
): boolean {
  if (vmi === undefined || vm.status === undefined || !isChanging(vm, vmi)) return false;
  const storedStatus = new Map<string, unknown>(Object.entries(vm.status));
  const isSame = Object.entries(next).every(
    ([field, value]) =>
      DEFERRABLE_FIELDS.includes(field) || isEqual(storedStatus.get(field), value),
  );
  return (
    isSame &&
    hasNoNewEntry(vm.status.ipAddresses, next.ipAddresses) &&
    hasNoNewEntry(vm.status.macAddresses, next.macAddresses) &&
    hasNoNewAddress(vm.status.pcieTopology, next.pcieTopology)
  );
}
