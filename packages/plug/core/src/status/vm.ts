// SPDX-License-Identifier: Apache-2.0
// What virt-controller reports of a VM.
import {
  isAbsent,
  isVmiFinal,
  type StartFailure,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmStatus,
} from "@patchbay/api";
import { TOPOLOGY_VERSION } from "@patchbay/domain";
import { keptAddressesOf } from "../addresses/kept-addresses.ts";
import { findByName, ifacesOf } from "../spec/nics.ts";
import { openMigration } from "../migration/owner.ts";
import { keptMacsOf } from "../iface/kept-macs.ts";
import { keptTopology } from "../pcie/devices.ts";
import { decideRun, notedStrategy, runFactsOf } from "../plan/vm/run-strategy.ts";
import { startFailureOf } from "../plan/vm/start-failure.ts";
import {
  findCondition,
  PAUSED,
  READY,
  SYNCHRONIZED,
  withTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import { keptHistory } from "./history/of-vm.ts";
import { restartRequiredFields } from "./restart-required.ts";
import {
  synchronizedCondition,
  vmSyncError,
  type SyncError,
  type VmSituation,
} from "./sync-error.ts";

/** Source: KubeVirt VirtualMachineRestartRequired. */
const RESTART_REQUIRED = "RestartRequired";
const OWN: readonly string[] = [READY, SYNCHRONIZED, RESTART_REQUIRED];

/** What is printed of a VM that does not come up, by reason; else the reason itself. Source: KubeVirt, where it has the word. */
const PRINTED: Readonly<Record<string, string>> = {
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

/** What the word for people is chosen from. */
interface Printed {
  readonly syncError: SyncError | undefined;
  readonly startFailure: StartFailure | undefined;
  readonly waitsForBinding: boolean;
}

function statusOfStart(syncError: SyncError | undefined): string {
  return syncError === undefined ? "Starting" : (PRINTED[syncError.reason] ?? syncError.reason);
}

/** What stands in the way goes before what is waited for. */
function statusOfVmiStart({ syncError, waitsForBinding }: Printed): string {
  return syncError === undefined && waitsForBinding
    ? "WaitingForVolumeBinding"
    : statusOfStart(syncError);
}

function statusWithoutVmi(vm: VirtualMachine, { syncError, startFailure }: Printed): string {
  const { step } = decideRun(runFactsOf(vm, undefined));
  if (step !== "start") return "Stopped";
  const pauses = syncError === undefined && startFailure !== undefined;
  return pauses ? "CrashLoopBackOff" : statusOfStart(syncError);
}

/** Undefined: it does not run yet. */
function statusOfLife(vmi: VirtualMachineInstance): string | undefined {
  const { status } = vmi;
  if (status?.phase === "Unknown") return status.phase;
  if (openMigration(vmi) !== undefined) return "Migrating";
  if (findCondition(status?.conditions, PAUSED)?.status === "True") return "Paused";
  return status?.phase === "Running" ? "Running" : undefined;
}

/** For people; KubeVirt's words where it has one. Source: KubeVirt VirtualMachinePrintableStatus. */
function printableStatus({ vm, vmi }: VmSituation, printed: Printed): string {
  if (vm.metadata.deletionTimestamp !== undefined) return "Terminating";
  if (vmi === undefined) return statusWithoutVmi(vm, printed);
  if (isVmiFinal(vmi)) return printed.startFailure === undefined ? "Stopped" : "CrashLoopBackOff";
  const isStopped = decideRun(runFactsOf(vm, vmi)).step === "stop";
  if (isStopped || vmi.metadata.deletionTimestamp !== undefined) return "Stopping";
  return statusOfLife(vmi) ?? statusOfVmiStart(printed);
}

/** Source: KubeVirt syncReadyConditionFromVMI. */
function readyCondition(vmi: VirtualMachineInstance | undefined): NewCondition {
  if (vmi === undefined) {
    const message = "VMI does not exist";
    return { type: READY, status: "False", reason: "VMINotExists", message };
  }
  const told = findCondition(vmi.status?.conditions, READY);
  if (told !== undefined) return told;
  const message = "VMI is missing the Ready condition";
  return { type: READY, status: "False", reason: "VMIConditionMissing", message };
}

/** Of what is not there nobody knows what the next start makes of it. */
function changedFields(situation: VmSituation): readonly string[] {
  const { vm, vmi, parts } = situation;
  if (vmi === undefined || (parts?.missing ?? []).length > 0) return [];
  return restartRequiredFields(parts?.expanded ?? vm, vmi, situation);
}

function restartRequired(situation: VmSituation): readonly NewCondition[] {
  const fields = changedFields(situation);
  if (fields.length === 0) return [];
  const message = `changed fields take effect at the next start: ${fields.join(", ")}`;
  return [{ type: RESTART_REQUIRED, status: "True", reason: "NonLiveFieldsChanged", message }];
}

/** The VM's own, then what its VMI has beside. */
function conditionsOf(
  situation: VmSituation,
  syncError: SyncError | undefined,
  now: string,
): Conditions {
  const { vm, vmi } = situation;
  const own = [
    readyCondition(vmi),
    ...restartRequired(situation),
    ...synchronizedCondition(syncError),
  ];
  const others = (vmi?.status?.conditions ?? []).filter(({ type }) => !OWN.includes(type));
  return [...withTimes(own, vm.status?.conditions, now), ...others];
}

/** What the VMI was told goes before what was known: it was laid out by it. */
function versionOf(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): number {
  const told = vmi === undefined ? undefined : keptTopology(vmi)?.version;
  return told ?? vm.status?.pcieTopology?.version ?? TOPOLOGY_VERSION;
}

/**
 * Where the devices are: what the VMI reports goes before what was known; an iface that is no longer declared is forgotten.
 * Devices that are no ifaces are where the VMI was told. A VMI whose ifaces are not placed yet says nothing of them.
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
  const told = vmi === undefined ? undefined : keptTopology(vmi)?.devices;
  const devices = told ?? before?.devices;
  if (before === undefined && interfaces.length === 0 && devices === undefined) return {};
  const others = devices === undefined ? {} : { devices };
  return { pcieTopology: { version: versionOf(vm, vmi), interfaces, ...others } };
}

/** What is remembered of running; a member that is to go is undefined. */
function runFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): Pick<NewVmStatus, "runStrategy" | "startFailure" | "stateChangeRequests"> {
  const facts = runFactsOf(vm, vmi);
  const { requests } = decideRun(facts);
  return {
    runStrategy: notedStrategy(facts),
    startFailure: startFailureOf(vm, vmi, now),
    stateChangeRequests: requests.length === 0 ? undefined : [...requests],
  };
}

/** virt-controller's part of a VM's status; a member that is undefined is to be taken away. */
export type NewVmStatus = { readonly [K in keyof VmStatus]: VmStatus[K] | undefined };

/** The VM's status; `now` is RFC 3339. */
export function vmStatus(situation: VmSituation, now: string): NewVmStatus {
  const { vm, vmi, bindings, waitsForBinding } = situation;
  const macs = keptMacsOf(vm, vmi, bindings);
  const addresses = keptAddressesOf(vm, vmi);
  const syncError = vmSyncError(situation);
  const conditions = conditionsOf(situation, syncError, now);
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
  return { ...next, interfaceHistory: keptHistory({ vm, vmi }, next, now) };
}
