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
import { hasMissingImage, KERNEL_VOLUME_NAME, parseVolumeIndex } from "../vm/pod/image-files.ts";
import { formatProblems, findVmiStartProblems } from "../vm/start-problems.ts";
import { findStorageFault, type StorageFacts } from "../vm/storage.ts";
import type { Definitions, UnavailableNetworks } from "../node/definitions.ts";
import type { IpamClaimFacts } from "../vm/ipam-claims.ts";
import type { ClaimedNics } from "../nics/claimed-nics.ts";
import { findEventType } from "../reasons/table.ts";
import { hasEverRun, type NodeLoss } from "../node/node-loss.ts";
import { SYNCHRONIZED } from "./conditions.ts";
import type { InstancetypeFacts } from "../instancetype/facts.ts";
import { describeFailures, type StepFailure } from "./step-failure.ts";

/** Error that prevents a VM or VMI from reaching its spec. Source: KubeVirt SyncError. */
export interface SyncError {
  /** Stable identifier in CamelCase, listed in docs/reference/phases.md. */
  readonly reason: string;
  readonly message: string;
}

/** Waiting reasons of containers that require an action of the user. Source: Kubernetes pkg/kubelet/images, pkg/kubelet/container. */
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
  if (name === KERNEL_VOLUME_NAME) return `image ${image} of firmware.kernelBoot.container`;
  const volumeIndex = parseVolumeIndex(name);
  return volumeIndex === undefined
    ? `launcher image ${image}`
    : `image ${image} of spec.volumes[${String(volumeIndex)}]`;
}

function describeContainerImage(pod: Pod, container: string): string {
  const initContainer = pod.spec.initContainers?.find(({ name }) => name === container);
  return describeImage(container, initContainer?.image ?? "");
}

/** Adds the image to the message of a waiting container: the image of the volume that the message names, otherwise the container's. */
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

/** Lists why containers wait. Init containers come first, because the other containers start after them. */
function listWaiting(pod: Pod | undefined): readonly SyncError[] {
  const { initContainerStatuses = [], containerStatuses = [] } = pod?.status ?? {};
  const initWaiting = initContainerStatuses.flatMap((status) => {
    const waiting = findContainerWaiting(status);
    if (pod === undefined || waiting === undefined) return [];
    const { reason, message } = waiting;
    return [{ reason, message: describeWaiting(pod, status.name, message) }];
  });
  return [
    ...initWaiting,
    ...containerStatuses.flatMap((status) => findContainerWaiting(status) ?? []),
  ];
}

function isStuck({ reason }: SyncError): boolean {
  return STUCK_REASONS.has(reason);
}

/** Returns the waiting reason of a container, preferably a reason that a user must correct. */
export function findWaiting(pod: Pod | undefined): SyncError | undefined {
  const waitingErrors = listWaiting(pod);
  return waitingErrors.find(isStuck) ?? waitingErrors.at(-1);
}

function findUnsupportedSpecError(problems: readonly FieldProblem[]): SyncError | undefined {
  if (problems.length === 0) return undefined;
  return { reason: "UnsupportedSpec", message: formatProblems(problems) };
}

function findUnschedulableError(pod: Pod | undefined): SyncError | undefined {
  const condition = pod?.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (condition?.status !== "False" || condition.reason !== "Unschedulable") return undefined;
  return { reason: condition.reason, message: condition.message ?? "" };
}

export function findPodFailure(pod: Pod | undefined): SyncError | undefined {
  const { phase, reason = "", message = "" } = pod?.status ?? {};
  return phase === "Failed" && reason !== "" ? { reason, message } : undefined;
}

/** Reports that the API server or the runtime dropped an image volume of the pod. Source: Kubernetes KEP-4639 "image volume source". */
function findLostImageError(pod: Pod | undefined): SyncError | undefined {
  if (pod === undefined || !hasMissingImage(pod)) return undefined;
  const message =
    "the API server or the node's runtime does not support image volumes, which the launcher pod uses; the pod is replaced by one that copies the image's files";
  return { reason: "PodFieldDropped", message };
}

function findStuckError(pod: Pod | undefined): SyncError | undefined {
  return listWaiting(pod).find(isStuck);
}

const KERNEL_NOT_COPIED_REASON = "KernelNotCopied";
const DISK_NOT_PREPARED_REASON = "DiskNotPrepared";
const HOOK_ENDED_REASON = "HookSidecarEnded";
const START_REASONS: readonly string[] = [
  KERNEL_NOT_COPIED_REASON,
  DISK_NOT_PREPARED_REASON,
  HOOK_ENDED_REASON,
];

type ContainerEnd = NonNullable<ContainerStatus["state"]["terminated"]>;

function describeEnd({ message = "", reason = "Error", exitCode }: ContainerEnd): string {
  const lines = message.split("\n").map((line) => line.trim());
  const text = lines.filter((line) => line !== "").join("; ");
  return text === "" ? `${reason}, exit code ${String(exitCode)}` : text;
}

function describeUnprepared(pod: Pod, name: string, containerEnd: ContainerEnd): SyncError {
  const text = describeEnd(containerEnd);
  if (name === PREPARE_CONTAINER) return { reason: DISK_NOT_PREPARED_REASON, message: text };
  const message = `${describeContainerImage(pod, name)}: ${text}`;
  return parseVolumeIndex(name) === undefined
    ? { reason: KERNEL_NOT_COPIED_REASON, message: `kernel and initrd were not copied: ${message}` }
    : { reason: DISK_NOT_PREPARED_REASON, message: `the disk was not copied: ${message}` };
}

function findUnpreparedError(pod: Pod | undefined): SyncError | undefined {
  for (const { name, state } of pod?.status?.initContainerStatuses ?? []) {
    const containerEnd = state.terminated;
    if (pod === undefined || containerEnd === undefined || containerEnd.exitCode === 0) continue;
    return describeUnprepared(pod, name, containerEnd);
  }
  return undefined;
}

/** Returns why a hook sidecar failed. Returns undefined after the guest has run, because the guest then needs no sidecar. */
export function findHookFailure(
  vmi: VirtualMachineInstance,
  pod: Pod | undefined,
): SyncError | undefined {
  const failed = pod === undefined || hasEverRun(vmi) ? undefined : findFailedHook(pod);
  const containerEnd = failed?.state.terminated;
  if (failed === undefined || containerEnd === undefined) return undefined;
  const message = `the hook ${failed.name} (image ${failed.image}) has ended: ${describeEnd(containerEnd)}; correct it, then start the VM again`;
  return { reason: HOOK_ENDED_REASON, message };
}

function findStorageError({ vmi, pod, storage }: VmiStatusFacts): SyncError | undefined {
  return pod === undefined && !isVmiFinal(vmi) ? findStorageFault(vmi, storage) : undefined;
}

export interface VmiStatusFacts {
  readonly vmi: VirtualMachineInstance;
  readonly pod: Pod | undefined;
  readonly network: NetworkConfig;
  readonly storage: StorageFacts;
  readonly failures: readonly StepFailure[];
  readonly absences: UnavailableNetworks;
  readonly definitions: Definitions;
  readonly ipamClaims?: IpamClaimFacts;
  readonly claimedNics?: ClaimedNics;
  readonly nodeLoss?: NodeLoss;
}

function findNodeError({ status }: VirtualMachineInstance): SyncError | undefined {
  const { reason, message } = status?.blockedReason ?? {};
  if (reason === undefined || message === undefined) return undefined;
  // A reason without an event type is cleared without action by the user, so it is not reported as an error.
  return findEventType(reason) === undefined ? undefined : { reason, message };
}

function findGuestStartError({ vmi, pod }: VmiStatusFacts): SyncError | undefined {
  return findHookFailure(vmi, pod) ?? findNodeError(vmi);
}

export function findVmiSyncError(situation: VmiStatusFacts): SyncError | undefined {
  const { vmi, pod, network, failures, nodeLoss } = situation;
  return (
    findUnsupportedSpecError(findVmiStartProblems(vmi, network)) ??
    nodeLoss ??
    findStorageError(situation) ??
    describeFailures(failures) ??
    findLostImageError(pod) ??
    findGuestStartError(situation) ??
    findUnschedulableError(pod) ??
    findPodFailure(pod) ??
    findUnpreparedError(pod) ??
    findStuckError(pod)
  );
}

export interface VmStatusFacts {
  readonly vm: VirtualMachine;
  readonly vmi: VirtualMachineInstance | undefined;
  readonly startProblems: readonly FieldProblem[];
  /** Whether a VMI with the VM's name exists that the VM does not own. */
  readonly hasNameConflict: boolean;
  /** Whether the name conflict is temporary, because the other VMI is being deleted or belongs to a deleted VM. */
  readonly isConflictTemporary?: boolean;
  readonly bindings: BindingRegistry;
  readonly isStaged: boolean;
  readonly waitsForBinding: boolean;
  /** Facts about the instancetype and preference. Unset if the VM has neither an instancetype nor a preference. */
  readonly instancetypes?: InstancetypeFacts;
  readonly failures: readonly StepFailure[];
}

function findNameInUseError({
  vm,
  hasNameConflict,
  isConflictTemporary,
}: VmStatusFacts): SyncError | undefined {
  if (!hasNameConflict || isConflictTemporary === true) return undefined;
  const message = `a VirtualMachineInstance ${vm.metadata.name} exists that does not belong to this VM; delete it or rename the VM`;
  return { reason: "NameTaken", message };
}

/** Condition reasons that report a missing instancetype or preference. Source: KubeVirt pkg/instancetype/controller/vm. */
const MISSING_INSTANCETYPE_REASONS = {
  instancetype: "FailedFindInstancetype",
  preference: "FailedFindPreference",
} as const;

function findMissingInstancetypeError({ instancetypes }: VmStatusFacts): SyncError | undefined {
  const [firstMissing] = instancetypes?.missing ?? [];
  return (
    firstMissing && {
      reason: MISSING_INSTANCETYPE_REASONS[firstMissing.role],
      message: firstMissing.message,
    }
  );
}

/** Returns the VMI's error. If no VMI exists, returns the start error that the VM's condition retains after a failed start. */
function findVmiError({ vm, vmi }: VmStatusFacts): SyncError | undefined {
  if (vmi !== undefined) return findSyncError(vmi.status?.conditions);
  const condition = vm.status?.startFailure && findSyncError(vm.status.conditions);
  return condition !== undefined && START_REASONS.includes(condition.reason)
    ? condition
    : undefined;
}

export function findVmSyncError(situation: VmStatusFacts): SyncError | undefined {
  const { startProblems, failures } = situation;
  return (
    findMissingInstancetypeError(situation) ??
    findUnsupportedSpecError(startProblems) ??
    findNameInUseError(situation) ??
    describeFailures(failures) ??
    findVmiError(situation)
  );
}

export function buildSynchronizedCondition(
  syncError: SyncError | undefined,
): readonly (SyncError & Pick<Condition, "type" | "status">)[] {
  return syncError === undefined ? [] : [{ type: SYNCHRONIZED, status: "False", ...syncError }];
}

export function findSyncError(conditions: readonly Condition[] | undefined): SyncError | undefined {
  const condition = conditions?.find(({ type }) => type === SYNCHRONIZED);
  if (condition?.status !== "False") return undefined;
  return { reason: condition.reason ?? "", message: condition.message ?? "" };
}

export function newSyncError(
  oldConditions: readonly Condition[] | undefined,
  newConditions: readonly Condition[] | undefined,
): SyncError | undefined {
  const [old, condition] = [findSyncError(oldConditions), findSyncError(newConditions)];
  return old?.reason === condition?.reason && old?.message === condition?.message
    ? undefined
    : condition;
}
