// SPDX-License-Identifier: Apache-2.0
// Stages of a change, and the verdict on it: done, in progress, effective only later, or unable to complete.
import {
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
  isVmiFinal,
  type Iface,
} from "@patchbay/api";
import { findByName, ifacesOf } from "@patchbay/core/nics";
import { findSyncError } from "@patchbay/core/status";

export interface Observation {
  /** Undefined if the VM does not exist or is not watched. */
  readonly vm: VirtualMachine | undefined;
  readonly vmi: VirtualMachineInstance | undefined;
  /** Migrations of the VMI in the order in which they were first observed; unset if they are not watched. */
  readonly migrations?: readonly VirtualMachineInstanceMigration[];
  readonly elapsedMs: number;
}

export type VmiState = Pick<Observation, "vmi" | "migrations">;

export interface Step {
  readonly phase: string;
  readonly reason?: string;
  readonly message?: string;
  readonly elapsedMs: number;
}

/** Step without its time; undefined if the changed object does not exist. */
export type Stage = Omit<Step, "elapsedMs"> | undefined;

export function findIfaceStage(vmi: VirtualMachineInstance | undefined, name: string): Stage {
  const hotplug = vmi?.status?.interfaces?.find((iface) => iface.name === name)?.hotplug;
  if (hotplug === undefined) return undefined;
  const { phase, reason, message } = hotplug;
  return {
    phase,
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && message !== "" && { message }),
  };
}

export function isIfaceGone(vmi: VirtualMachineInstance | undefined, name: string): boolean {
  const isNamed = (entry: { readonly name?: string }): boolean => entry.name === name;
  return ![
    ...(vmi?.status?.interfaces ?? []),
    ...(vmi?.status?.attachments ?? []),
    ...(vmi?.spec.domain.devices?.interfaces ?? []),
  ].some(isNamed);
}

export function findVmiStage(vmi: VirtualMachineInstance | undefined): Stage {
  if (vmi === undefined) return undefined;
  if (vmi.metadata.deletionTimestamp !== undefined) return { phase: "Stopping" };
  const phase = vmi.status?.phase;
  const reason = vmi.status?.reason;
  return {
    phase: phase === undefined || phase === "" ? "Pending" : phase,
    ...(reason !== undefined && { reason }),
  };
}

/** Returns the current stage of a change. `first` is the state before the request. */
export type FindStage = (now: VmiState, first: VmiState) => Stage;

export class StepRecorder {
  readonly steps: Step[] = [];
  readonly #findStage: FindStage;
  readonly #first: VmiState;
  readonly #onStep: (step: Step) => void;
  #last: string;

  /** @param first - state before the request; its stage is not recorded as a step */
  constructor(findStage: FindStage, first: VmiState, onStep: (step: Step) => void) {
    this.#findStage = findStage;
    this.#first = first;
    this.#onStep = onStep;
    this.#last = JSON.stringify(findStage(first, first) ?? null);
  }

  record(observation: VmiState & Pick<Observation, "elapsedMs">): void {
    const stage = this.#findStage(observation, this.#first);
    const text = JSON.stringify(stage ?? null);
    if (text === this.#last) return;
    this.#last = text;
    if (stage === undefined) return;
    const step = { ...stage, elapsedMs: Math.round(observation.elapsedMs) };
    this.steps.push(step);
    this.#onStep(step);
  }

  get state(): string {
    const step = this.steps.at(-1);
    return step === undefined ? "unchanged" : printStage(step);
  }
}

export function printStage(stage: NonNullable<Stage>): string {
  const details = [stage.reason, stage.message].filter((text) => text !== undefined).join(": ");
  return details === "" ? stage.phase : `${stage.phase} (${details})`;
}

export type Verdict =
  | { readonly kind: "waiting" }
  | { readonly kind: "done" }
  /** The request is accepted and takes effect later. `note` explains when. */
  | { readonly kind: "later"; readonly note: string }
  /** The change cannot complete until a user acts. */
  | { readonly kind: "failing"; readonly reason: string };

type Vmi = VirtualMachineInstance | undefined;
type VmState = Pick<Observation, "vm" | "vmi">;

function ifacesOfVm(vm: VirtualMachine | undefined): readonly Iface[] {
  return vm === undefined ? [] : ifacesOf(vm.spec.template.spec);
}

/** Reasons of the condition Ready while a VMI starts without a problem. */
const STARTING_REASONS: readonly (string | undefined)[] = [
  "GuestNotRunning",
  "ContainerCreating",
  "PodInitializing",
];

function toVerdict(isDone: boolean): Verdict {
  return { kind: isDone ? "done" : "waiting" };
}

export function isGuestRunning(vmi: Vmi): boolean {
  return vmi?.status?.phase === "Running" && vmi.metadata.deletionTimestamp === undefined;
}

/** Returns why a VMI does not start; undefined if no problem is reported. */
export function findStartProblem(vmi: Vmi): string | undefined {
  if (vmi === undefined || vmi.status?.phase === "Running") return undefined;
  const problem = (vmi.status?.conditions ?? []).find(
    ({ type, status, reason, message = "" }) =>
      status === "False" &&
      (type === "Synchronized" ||
        (type === "Ready" && (!STARTING_REASONS.includes(reason) || hasFailure(reason, message)))),
  );
  if (problem === undefined) return undefined;
  return [problem.reason, problem.message].filter((text) => (text ?? "") !== "").join(": ");
}

/** Returns whether a container could not be created. During a normal start, kubelets set the same reasons, but without a message. */
function hasFailure(reason: string | undefined, message: string): boolean {
  return (reason === "ContainerCreating" || reason === "PodInitializing") && message !== "";
}

const HEALTHY_STATUSES: readonly (string | undefined)[] = [
  undefined,
  "Starting",
  "Running",
  "Stopping",
  "Stopped",
  "Terminating",
];

/** Returns why a VM does not start; undefined if no problem is reported. Ignores a status that is older than the specification. */
export function findVmProblem(vm: VirtualMachine | undefined): string | undefined {
  const { observedGeneration, printableStatus, conditions } = vm?.status ?? {};
  const isCurrent = observedGeneration === vm?.metadata.generation;
  if (!isCurrent || HEALTHY_STATUSES.includes(printableStatus)) return undefined;
  const syncError = findSyncError(conditions);
  return syncError && `${syncError.reason}: ${syncError.message}`;
}

/** Judges a start or restart, which is done when the guest of a new VMI runs. */
export function judgeStart({ vm, vmi }: VmState, first: VmState): Verdict {
  const isNew = vmi !== undefined && vmi.metadata.uid !== first.vmi?.metadata.uid;
  if (isNew && isGuestRunning(vmi)) return { kind: "done" };
  const reason = findVmProblem(vm) ?? (isNew ? findStartProblem(vmi) : undefined);
  return reason === undefined ? { kind: "waiting" } : { kind: "failing", reason };
}

/** Returns the verdict on a change of an interface if the VMI has stopped or is stopping, otherwise undefined. */
function findStoppedVerdict({ vm, vmi }: VmState, effect: string): Verdict | undefined {
  const hasStopped = vmi === undefined || isVmiFinal(vmi);
  if (!hasStopped && vmi.metadata.deletionTimestamp === undefined) return undefined;
  const stateText = hasStopped ? "has stopped" : "is stopping";
  return vm === undefined
    ? { kind: "failing", reason: `the VMI ${stateText}` }
    : { kind: "later", note: `the VM ${stateText}: the interface is ${effect} at its next start` };
}

function findPlugProblem(iface: string, now: VmState, first: VmState): string | undefined {
  const problem = findStartProblem(now.vmi);
  if (problem !== undefined) return `the VM does not start: ${problem}`;
  const stage = findIfaceStage(now.vmi, iface);
  if (stage?.reason === undefined) return undefined;
  const hasFailed = findIfaceStage(first.vmi, iface)?.reason === stage.reason;
  return hasFailed ? `the interface was already failing: ${printStage(stage)}` : undefined;
}

const IFACES_PATH = "spec.template.spec.domain.devices.interfaces";

/** Returns the VM's changed fields that take effect only at its next start; empty while the status is older than the specification. */
function listStagedFields(vm: VirtualMachine | undefined): readonly string[] {
  const { observedGeneration, conditions = [] } = vm?.status ?? {};
  const condition = conditions.find(({ type }) => type === "RestartRequired");
  if (observedGeneration !== vm?.metadata.generation || condition?.status !== "True") return [];
  const [, fields = ""] = (condition.message ?? "").split(": ");
  return fields.split(", ");
}

/** Returns the verdict `later` if the cluster's rollout strategy delays the change of NICs until the next start, otherwise undefined. */
function findStagedVerdict(
  effect: string,
  fields: readonly string[],
  { vm }: VmState,
): Verdict | undefined {
  const staged = listStagedFields(vm);
  if (!fields.some((field) => staged.includes(field))) return undefined;
  const note = `the interface is ${effect} at the VM's next start, because of the cluster's vmRolloutStrategy`;
  return { kind: "later", note };
}

export function judgePlug(iface: string, now: VmState, first: VmState): Verdict {
  const index = ifacesOfVm(now.vm).findIndex(({ name }) => name === iface);
  const deferredVerdict =
    findStoppedVerdict(now, "plugged") ??
    findStagedVerdict("plugged", [`${IFACES_PATH}[${String(index)}]`], now);
  if (deferredVerdict !== undefined) return deferredVerdict;
  const reason = findPlugProblem(iface, now, first);
  if (reason !== undefined) return { kind: "failing", reason };
  return toVerdict(findIfaceStage(now.vmi, iface)?.phase === "Ready");
}

export function judgeUnplug(iface: string, now: VmState): Verdict {
  if (isIfaceGone(now.vmi, iface)) return { kind: "done" };
  const isDeclared = ifacesOfVm(now.vm).some(({ name }) => name === iface);
  return (
    (isDeclared ? undefined : findStagedVerdict("unplugged", [IFACES_PATH], now)) ?? {
      kind: "waiting",
    }
  );
}

export interface RequestedSettings {
  /** Network as NAMESPACE/NAME. */
  readonly network?: string;
  readonly link?: "up" | "down";
}

/** Returns whether the guest's NIC is on the network. During a swap, the interface also has an attachment of the other network. */
function isOnNetwork(vmi: Vmi, iface: string, network: string): boolean {
  const status = findByName(vmi?.status?.interfaces, iface);
  const attachment = vmi?.status?.attachments?.find(
    ({ name, networkName }) => name === iface && networkName === network,
  );
  return (
    status?.hotplug?.phase === "Ready" && status.podInterfaceName === attachment?.podInterfaceName
  );
}

function listSettingPaths(
  { network, link }: RequestedSettings,
  iface: string,
  vm: VirtualMachine | undefined,
): readonly string[] {
  const spec = vm?.spec.template.spec;
  const printIndex = (list: readonly { readonly name: string }[] = []): string =>
    String(list.findIndex(({ name }) => name === iface));
  const linkPath = `${IFACES_PATH}[${printIndex(spec?.domain.devices?.interfaces)}].state`;
  const networkPath = `spec.template.spec.networks[${printIndex(spec?.networks)}].multus.networkName`;
  return [
    ...(link === undefined ? [] : [linkPath]),
    ...(network === undefined ? [] : [networkPath]),
  ];
}

function hasSettings({ network, link }: RequestedSettings, iface: string, vmi: Vmi): boolean {
  const status = findByName(vmi?.status?.interfaces, iface);
  if (link !== undefined && status?.linkState !== link) return false;
  return network === undefined || isOnNetwork(vmi, iface, network);
}

/** Returns the verdict on a change of network or link. Ignores failures of the interface, because the change may repair them. */
export function judgeSettings(
  { iface, ...wanted }: RequestedSettings & { readonly iface: string },
  now: VmState,
): Verdict {
  const paths = listSettingPaths(wanted, iface, now.vm);
  const deferredVerdict =
    findStoppedVerdict(now, "changed") ?? findStagedVerdict("changed", paths, now);
  if (deferredVerdict !== undefined) return deferredVerdict;
  const problem = findStartProblem(now.vmi);
  if (problem !== undefined) {
    return { kind: "failing", reason: `the VM does not start: ${problem}` };
  }
  return toVerdict(hasSettings(wanted, iface, now.vmi));
}

export function judgeStop({ vm, vmi }: VmState): Verdict {
  const isDown =
    vmi === undefined || (isVmiFinal(vmi) && vmi.metadata.deletionTimestamp === undefined);
  return toVerdict(isDown && (vm === undefined || vm.status?.printableStatus === "Stopped"));
}
