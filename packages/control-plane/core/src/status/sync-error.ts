// SPDX-License-Identifier: Apache-2.0
// The condition Synchronized, which reports why a VM or VMI cannot reach its spec.
import {
  isVmiFinal,
  type BindingRegistry,
  type NetworkConfig,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { Condition, ContainerStatus, Pod } from "@patchbay/api/kubernetes";
import type { FieldProblem } from "@patchbay/api/validate";
import { PREPARE_CONTAINER } from "../vm/pod/disks.ts";
import { findFailedHook } from "../hooks/hook-sidecars.ts";
import { hasMissingImage, KERNEL_FILES, parseVolumeIndex } from "../vm/pod/image-files.ts";
import { formatProblems, vmiStartProblems } from "../vm/start-problems.ts";
import { findStorageFault, type StorageFacts } from "../vm/storage.ts";
import type { UnavailableNetworks } from "../node/definitions.ts";
import { findEventType } from "../reasons/table.ts";
import { hasEverRun, type NodeLoss } from "../node/node-loss.ts";
import { SYNCHRONIZED } from "./conditions.ts";
import type { PartsFacts } from "../instancetype/facts.ts";
import { describeFailures, type StepFailure } from "./step-failure.ts";

/** Why a VM or VMI cannot reach its spec. Source: KubeVirt SyncError. */
export interface SyncError {
  /** Stable identifier in CamelCase, listed in docs/reference/phases.md. */
  readonly reason: string;
  readonly message: string;
}

/** Reasons of waiting containers that a user must correct. Source: Kubernetes pkg/kubelet/images, pkg/kubelet/container. */
const STUCK_REASONS: ReadonlySet<string> = new Set([
  "ErrImageNeverPull",
  "ErrImagePull",
  "ImagePullBackOff",
  "ImageInspectError",
  "InvalidImageName",
  "RegistryUnavailable",
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
]);

function describeImage(name: string, image: string): string {
  if (name === KERNEL_FILES) return `image ${image} of firmware.kernelBoot.container`;
  const volumeIndex = parseVolumeIndex(name);
  return volumeIndex === undefined
    ? `launcher image ${image}`
    : `image ${image} of spec.volumes[${String(volumeIndex)}]`;
}

function describeContainerImage(pod: Pod, container: string): string {
  const found = pod.spec.initContainers?.find(({ name }) => name === container);
  return describeImage(container, found?.image ?? "");
}

/** Names the image that a container waits for. The kubelet reports an image volume's problem on a container that mounts it. */
function describeWaiting(pod: Pod, container: string, message: string): string {
  const names = message.split(/[\s"',;]+/);
  for (const { name, image } of pod.spec.volumes ?? []) {
    if (image !== undefined && names.includes(image.reference)) {
      return `${describeImage(name, image.reference)}: ${message}`;
    }
  }
  return `${describeContainerImage(pod, container)}: ${message}`;
}

function findContainerWaiting({ state }: ContainerStatus): SyncError | undefined {
  return state.waiting && { reason: state.waiting.reason, message: state.waiting.message ?? "" };
}

/** Lists what containers wait for: init containers first, because the other containers start after them. */
function listWaiting(pod: Pod | undefined): readonly SyncError[] {
  const { initContainerStatuses = [], containerStatuses = [] } = pod?.status ?? {};
  const before = initContainerStatuses.flatMap((status) => {
    const waiting = findContainerWaiting(status);
    if (pod === undefined || waiting === undefined) return [];
    const { reason, message } = waiting;
    return [{ reason, message: describeWaiting(pod, status.name, message) }];
  });
  return [...before, ...containerStatuses.flatMap((status) => findContainerWaiting(status) ?? [])];
}

function isStuck({ reason }: SyncError): boolean {
  return STUCK_REASONS.has(reason);
}

/** Returns what a container of the pod waits for, preferably a problem that a user must correct. */
export function findWaiting(pod: Pod | undefined): SyncError | undefined {
  const all = listWaiting(pod);
  return all.find(isStuck) ?? all.at(-1);
}

function unsupportedSpecError(problems: readonly FieldProblem[]): SyncError | undefined {
  if (problems.length === 0) return undefined;
  return { reason: "UnsupportedSpec", message: formatProblems(problems) };
}

/** Returns why no node fits the pod. Source: Kubernetes PodScheduled, PodReasonUnschedulable. */
function unschedulableError(pod: Pod | undefined): SyncError | undefined {
  const condition = pod?.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (condition?.status !== "False" || condition.reason !== "Unschedulable") return undefined;
  return { reason: condition.reason, message: condition.message ?? "" };
}

/** Returns why the node rejected or evicted the pod. Source: Kubernetes kubelet, UnexpectedAdmissionError, Evicted. */
export function podFailure(pod: Pod | undefined): SyncError | undefined {
  const { phase, reason = "", message = "" } = pod?.status ?? {};
  return phase === "Failed" && reason !== "" ? { reason, message } : undefined;
}

/** Reports that the pod lost an image volume, so its directory would be empty. Source: Kubernetes KEP-4639 "image volume source". */
function lostImageError(pod: Pod | undefined): SyncError | undefined {
  if (pod === undefined || !hasMissingImage(pod)) return undefined;
  const message =
    "the API server or the node's runtime does not support image volumes, which the launcher pod uses; the pod is replaced by one that copies the image's files";
  return { reason: "PodFieldDropped", message };
}

function stuckError(pod: Pod | undefined): SyncError | undefined {
  return listWaiting(pod).find(isStuck);
}

const KERNEL_NOT_COPIED = "KernelNotCopied";
const DISK_NOT_PREPARED = "DiskNotPrepared";
const HOOK_ENDED = "HookSidecarEnded";
const START_REASONS: readonly string[] = [KERNEL_NOT_COPIED, DISK_NOT_PREPARED, HOOK_ENDED];

type ContainerEnd = NonNullable<ContainerStatus["state"]["terminated"]>;

function describeEnd({ message = "", reason = "Error", exitCode }: ContainerEnd): string {
  const lines = message.split("\n").map((line) => line.trim());
  const text = lines.filter((line) => line !== "").join("; ");
  return text === "" ? `${reason}, exit code ${String(exitCode)}` : text;
}

function describeUnprepared(pod: Pod, name: string, end: ContainerEnd): SyncError {
  const text = describeEnd(end);
  if (name === PREPARE_CONTAINER) return { reason: DISK_NOT_PREPARED, message: text };
  const message = `${describeContainerImage(pod, name)}: ${text}`;
  return parseVolumeIndex(name) === undefined
    ? { reason: KERNEL_NOT_COPIED, message: `kernel and initrd were not copied: ${message}` }
    : { reason: DISK_NOT_PREPARED, message: `the disk was not copied: ${message}` };
}

function unpreparedError(pod: Pod | undefined): SyncError | undefined {
  for (const { name, state } of pod?.status?.initContainerStatuses ?? []) {
    const end = state.terminated;
    if (pod === undefined || end === undefined || end.exitCode === 0) continue;
    return describeUnprepared(pod, name, end);
  }
  return undefined;
}

/** Returns why a hook sidecar failed before the guest ran. Afterwards the guest does not need the sidecar. */
export function hookFailure(
  vmi: VirtualMachineInstance,
  pod: Pod | undefined,
): SyncError | undefined {
  const failed = pod === undefined || hasEverRun(vmi) ? undefined : findFailedHook(pod);
  const end = failed?.state.terminated;
  if (failed === undefined || end === undefined) return undefined;
  const message = `the hook ${failed.name} (image ${failed.image}) has ended: ${describeEnd(end)}; correct it, then start the VM again`;
  return { reason: HOOK_ENDED, message };
}

function storageError({ vmi, pod, storage }: VmiStatusFacts): SyncError | undefined {
  return pod === undefined && !isVmiFinal(vmi) ? findStorageFault(vmi, storage) : undefined;
}

export interface VmiStatusFacts {
  readonly vmi: VirtualMachineInstance;
  readonly pod: Pod | undefined;
  readonly network: NetworkConfig;
  readonly storage: StorageFacts;
  readonly failures: readonly StepFailure[];
  readonly absences: UnavailableNetworks;
  readonly nodeLoss?: NodeLoss;
}

function nodeError({ status }: VirtualMachineInstance): SyncError | undefined {
  const { reason, message } = status?.hindrance ?? {};
  if (reason === undefined || message === undefined) return undefined;
  // Reasons without an event end by themselves and are no errors.
  return findEventType(reason) === undefined ? undefined : { reason, message };
}

function guestStartError({ vmi, pod }: VmiStatusFacts): SyncError | undefined {
  return hookFailure(vmi, pod) ?? nodeError(vmi);
}

export function vmiSyncError(situation: VmiStatusFacts): SyncError | undefined {
  const { vmi, pod, network, failures, nodeLoss } = situation;
  return (
    unsupportedSpecError(vmiStartProblems(vmi, network)) ??
    nodeLoss ??
    storageError(situation) ??
    describeFailures(failures) ??
    lostImageError(pod) ??
    guestStartError(situation) ??
    unschedulableError(pod) ??
    podFailure(pod) ??
    unpreparedError(pod) ??
    stuckError(pod)
  );
}

export interface VmStatusFacts {
  readonly vm: VirtualMachine;
  readonly vmi: VirtualMachineInstance | undefined;
  readonly startProblems: readonly FieldProblem[];
  /** Whether a VMI with the VM's name exists that does not belong to the VM. */
  readonly hasNameConflict: boolean;
  /** Whether the VMI with the VM's name, or its owner, is being deleted, so that the name becomes free. */
  readonly isConflictTemporary?: boolean;
  readonly bindings: BindingRegistry;
  readonly isStaged: boolean;
  /** Whether a claim of the VMI has no volume yet. */
  readonly waitsForBinding: boolean;
  /** Unset for a VM without instancetype and preference. */
  readonly parts?: PartsFacts;
  readonly failures: readonly StepFailure[];
}

function nameInUseError({
  vm,
  hasNameConflict,
  isConflictTemporary,
}: VmStatusFacts): SyncError | undefined {
  if (!hasNameConflict || isConflictTemporary === true) return undefined;
  const message = `a VirtualMachineInstance ${vm.metadata.name} exists that does not belong to this VM; delete it or rename the VM`;
  return { reason: "NameTaken", message };
}

/** Reasons for a missing instancetype or preference. Source: KubeVirt pkg/instancetype/controller/vm. */
const MISSING_PART_REASONS = {
  instancetype: "FailedFindInstancetype",
  preference: "FailedFindPreference",
} as const;

function missingPartError({ parts }: VmStatusFacts): SyncError | undefined {
  const [first] = parts?.missing ?? [];
  return first && { reason: MISSING_PART_REASONS[first.part], message: first.message };
}

/** Returns the VMI's error. Between two starts, returns the last start's error if the next may fail for the same reason. */
function vmiError({ vm, vmi }: VmStatusFacts): SyncError | undefined {
  if (vmi !== undefined) return findSyncError(vmi.status?.conditions);
  const condition = vm.status?.startFailure && findSyncError(vm.status.conditions);
  return condition !== undefined && START_REASONS.includes(condition.reason)
    ? condition
    : undefined;
}

/** Returns the VM's own error, otherwise its VMI's. */
export function vmSyncError(situation: VmStatusFacts): SyncError | undefined {
  const { startProblems, failures } = situation;
  return (
    missingPartError(situation) ??
    unsupportedSpecError(startProblems) ??
    nameInUseError(situation) ??
    describeFailures(failures) ??
    vmiError(situation)
  );
}

export function synchronizedCondition(
  syncError: SyncError | undefined,
): readonly (SyncError & Pick<Condition, "type" | "status">)[] {
  return syncError === undefined ? [] : [{ type: SYNCHRONIZED, status: "False", ...syncError }];
}

export function findSyncError(conditions: readonly Condition[] | undefined): SyncError | undefined {
  const condition = conditions?.find(({ type }) => type === SYNCHRONIZED);
  if (condition?.status !== "False") return undefined;
  return { reason: condition.reason ?? "", message: condition.message ?? "" };
}

/** Returns the current error for an event. Undefined if there is none or it was reported before. */
export function newSyncError(
  before: readonly Condition[] | undefined,
  now: readonly Condition[] | undefined,
): SyncError | undefined {
  const [old, condition] = [findSyncError(before), findSyncError(now)];
  return old?.reason === condition?.reason && old?.message === condition?.message
    ? undefined
    : condition;
}
