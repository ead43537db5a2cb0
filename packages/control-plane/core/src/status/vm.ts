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
import { decideRun, recordedStrategy, collectRunFacts } from "../vm/run-strategy.ts";
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
import { nextVmHistory } from "../history/of-vm.ts";
import { restartRequiredFields } from "./restart-required.ts";
import {
  synchronizedCondition,
  vmSyncError,
  type SyncError,
  type VmStatusFacts,
} from "./sync-error.ts";
import { isEqual } from "@patchbay/base";
import { isEndedOrDeleting } from "../requests/ifaces.ts";

/** Source: KubeVirt VirtualMachineRestartRequired. */
const RESTART_REQUIRED = "RestartRequired";
const OWN_CONDITIONS: readonly string[] = [READY, SYNCHRONIZED, RESTART_REQUIRED];

/** `printableStatus` by sync error; by default the reason itself. KubeVirt's values where it has one. */
const PRINTABLE_STATUS: Readonly<Record<string, string>> = {
  UnsupportedSpec: "ErrorUnsupportedSpec",
  FailedCreate: "ErrorCreateRefused",
  NameTaken: "ErrorNameTaken",
  Unschedulable: "ErrorUnschedulable",
  FailedPvcNotFound: "ErrorPvcNotFound",
  FailedDataVolumeNotFound: "ErrorDataVolumeNotFound",
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

function startStatus(syncError: SyncError | undefined): string {
  return syncError === undefined
    ? "Starting"
    : (PRINTABLE_STATUS[syncError.reason] ?? syncError.reason);
}

function vmiStartStatus({ syncError, waitsForBinding }: PrintableStatusFacts): string {
  return syncError === undefined && waitsForBinding
    ? "WaitingForVolumeBinding"
    : startStatus(syncError);
}

function statusWithoutVmi(
  vm: VirtualMachine,
  { syncError, startFailure }: PrintableStatusFacts,
): string {
  const { step } = decideRun(collectRunFacts(vm, undefined));
  if (step !== "start") return "Stopped";
  const pauses = syncError === undefined && startFailure !== undefined;
  return pauses ? "CrashLoopBackOff" : startStatus(syncError);
}

function runningStatus(vmi: VirtualMachineInstance): string | undefined {
  const { status } = vmi;
  if (status?.phase === "Unknown") return status.phase;
  if (openMigration(vmi) !== undefined) return "Migrating";
  if (findCondition(status?.conditions, PAUSED)?.status === "True") return "Paused";
  return status?.phase === "Running" ? "Running" : undefined;
}

/** KubeVirt's values where it has one. Source: KubeVirt VirtualMachinePrintableStatus. */
function printableStatus({ vm, vmi }: VmStatusFacts, printed: PrintableStatusFacts): string {
  if (vm.metadata.deletionTimestamp !== undefined) return "Terminating";
  if (vmi === undefined) return statusWithoutVmi(vm, printed);
  if (isVmiFinal(vmi)) return printed.startFailure === undefined ? "Stopped" : "CrashLoopBackOff";
  const isStopped = decideRun(collectRunFacts(vm, vmi)).step === "stop";
  if (isStopped || vmi.metadata.deletionTimestamp !== undefined) return "Stopping";
  return runningStatus(vmi) ?? vmiStartStatus(printed);
}

/** Source: KubeVirt syncReadyConditionFromVMI. */
function readyCondition(vmi: VirtualMachineInstance | undefined): NewCondition {
  if (vmi === undefined) {
    const message = "VMI does not exist";
    return { type: READY, status: "False", reason: "VMINotExists", message };
  }
  const recorded = findCondition(vmi.status?.conditions, READY);
  if (recorded !== undefined) return recorded;
  const message = "VMI is missing the Ready condition";
  return { type: READY, status: "False", reason: "VMIConditionMissing", message };
}

/** Empty while an instancetype or preference is missing, because the next start is unknown. */
function changedFields(situation: VmStatusFacts): readonly string[] {
  const { vm, vmi, parts } = situation;
  if (vmi === undefined || (parts?.missing ?? []).length > 0) return [];
  return restartRequiredFields(parts?.expanded ?? vm, vmi, situation);
}

function restartRequired(situation: VmStatusFacts): readonly NewCondition[] {
  const fields = changedFields(situation);
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
  const own = [
    readyCondition(vmi),
    ...restartRequired(situation),
    ...synchronizedCondition(syncError),
  ];
  const others = (vmi?.status?.conditions ?? []).filter(
    ({ type }) => !OWN_CONDITIONS.includes(type),
  );
  return [...withTransitionTimes(own, vm.status?.conditions, now), ...others];
}

/** The VMI's version takes precedence, because its devices are placed by it. */
function topologyVersion(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): number {
  const recorded = vmi === undefined ? undefined : readRecordedTopology(vmi)?.version;
  return recorded ?? vm.status?.pcieTopology?.version ?? TOPOLOGY_VERSION;
}

/**
 * PCI addresses of the devices. The VMI's report takes precedence; interfaces that are no longer declared are dropped.
 * Other devices are where the VMI's annotation puts them. A VMI without addresses changes nothing.
 */
function topologyFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): Pick<VmStatus, "pcieTopology"> {
  const before = vm.status?.pcieTopology;
  const interfaces = ifacesOf(vm.spec.template.spec).flatMap((iface) => {
    const reported = findByName(vmi?.status?.interfaces, iface.name)?.pciAddress;
    const pciAddress = reported ?? findByName(before?.interfaces, iface.name)?.pciAddress;
    return isAbsent(iface) || pciAddress === undefined ? [] : [{ name: iface.name, pciAddress }];
  });
  const recorded = vmi === undefined ? undefined : readRecordedTopology(vmi)?.devices;
  const devices = recorded ?? before?.devices;
  if (before === undefined && interfaces.length === 0 && devices === undefined) return {};
  const others = devices === undefined ? {} : { devices };
  return { pcieTopology: { version: topologyVersion(vm, vmi), interfaces, ...others } };
}

/** Fields about the run strategy. An undefined member is to be removed. */
function runFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): Pick<NewVmStatus, "runStrategy" | "startFailure" | "stateChangeRequests"> {
  const facts = collectRunFacts(vm, vmi);
  const { requests } = decideRun(facts);
  return {
    runStrategy: recordedStrategy(facts),
    startFailure: trackStartFailure(vm, vmi, now),
    stateChangeRequests: requests.length === 0 ? undefined : [...requests],
  };
}

/** virt-controller's part of a VM's status. An undefined member is to be removed. */
export type NewVmStatus = { readonly [K in keyof VmStatus]: VmStatus[K] | undefined };

export function buildVmStatus(situation: VmStatusFacts, now: string): NewVmStatus {
  const { vm, vmi, bindings, waitsForBinding } = situation;
  const macs = collectRetainedMacs(vm, vmi, bindings);
  const addresses = listRetainedAddresses(vm, vmi);
  const syncError = vmSyncError(situation);
  const conditions = listConditions(situation, syncError, now);
  const run = runFields(vm, vmi, now);
  const { startFailure } = run;
  const next = {
    created: vmi !== undefined,
    ready: findCondition(conditions, READY)?.status === "True",
    printableStatus: printableStatus(situation, { syncError, startFailure, waitsForBinding }),
    conditions,
    ipAddresses: addresses.length === 0 ? undefined : [...addresses],
    macAddresses: macs.length === 0 ? undefined : [...macs],
    ...topologyFields(vm, vmi),
    ...run,
    observedGeneration: vm.metadata.generation ?? 0,
  };
  return { ...next, interfaceHistory: nextVmHistory({ vm, vmi }, next, now) };
}

/** Fields whose changes may wait; `pcieTopology` only if it has no new address. */
const DEFERRABLE_FIELDS: readonly string[] = [
  "observedGeneration",
  "pcieTopology",
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

/** Whether the topology has no new address. New addresses must be stored at once; removed ones can wait. */
function hasNoNewAddress(
  before: PcieTopology | undefined,
  next: PcieTopology | undefined,
): boolean {
  if (before === undefined || next === undefined) return before === next;
  const { interfaces: known, ...others } = before;
  const { interfaces: recorded, ...otherNext } = next;
  return (
    isEqual(others, otherNext) &&
    recorded.every((place) => known.some((each) => isEqual(each, place)))
  );
}

/**
 * Whether writing the status can wait because more changes follow soon: the guest's NICs are being plugged or unplugged,
 * and `next` changes nothing important.
 */
export function canDeferVmStatus(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  next: NewVmStatus,
): boolean {
  if (vmi === undefined || vm.status === undefined || !isChanging(vm, vmi)) return false;
  const stored = new Map<string, unknown>(Object.entries(vm.status));
  const isSame = Object.entries(next).every(
    ([field, value]) => DEFERRABLE_FIELDS.includes(field) || isEqual(stored.get(field), value),
  );
  return isSame && hasNoNewAddress(vm.status.pcieTopology, next.pcieTopology);
}
