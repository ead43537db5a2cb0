// SPDX-License-Identifier: Apache-2.0
// Why a VM or VMI does not become what its specification says: what people see first.
import {
  isVmiFinal,
  type BindingRegistry,
  type Condition,
  type ContainerStatus,
  type FieldProblem,
  type NetworkConfig,
  type Pod,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { PREPARE_CONTAINER } from "../plan/pod/disks.ts";
import { failedHookOf } from "../plan/pod/hook-sidecars.ts";
import { hasLostImage, KERNEL_FILES, volumeIndexOf } from "../plan/pod/image-files.ts";
import { sayProblems, vmiStartProblems } from "../plan/vm/start-problems.ts";
import { storageHindrance, type StorageFacts } from "../plan/vm/storage.ts";
import type { NetworkAbsences } from "../node/definitions.ts";
import { eventTypeOf } from "../reasons/table.ts";
import { hasEverRun } from "../node/has-run.ts";
import type { NodeLoss } from "../node/node-loss.ts";
import { SYNCHRONIZED } from "./conditions.ts";
import type { PartsFacts } from "../instancetype/facts.ts";
import { sayFailures, type StepFailure } from "./step-failure.ts";

/** What stands in the way, as the condition Synchronized says it. Source: KubeVirt's SyncError. */
export interface SyncError {
  /** Stable, in CamelCase; listed in docs/reference/phases.md. */
  readonly reason: string;
  readonly message: string;
}

/** Why a container waits that does not come up by itself. Source: Kubernetes pkg/kubelet/images, pkg/kubelet/container. */
const STUCK: ReadonlySet<string> = new Set([
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

/** The image of a kernel or disk in a user's words; that of the launcher else. `name` is a container's, or a volume's. */
function sayImage(name: string, image: string): string {
  if (name === KERNEL_FILES) return `image ${image} of firmware.kernelBoot.container`;
  const volumeIndex = volumeIndexOf(name);
  return volumeIndex === undefined
    ? `launcher image ${image}`
    : `image ${image} of spec.volumes[${String(volumeIndex)}]`;
}

function sayImageOf(pod: Pod, container: string): string {
  const found = pod.spec.initContainers?.find(({ name }) => name === container);
  return sayImage(container, found?.image ?? "");
}

/** An image that is a volume has no container: what is wrong with it is told at the first that waits for it. */
function sayWaiting(pod: Pod, container: string, message: string): string {
  const words = message.split(/[\s"',;]+/);
  for (const { name, image } of pod.spec.volumes ?? []) {
    if (image !== undefined && words.includes(image.reference)) {
      return `${sayImage(name, image.reference)}: ${message}`;
    }
  }
  return `${sayImageOf(pod, container)}: ${message}`;
}

function waitingOf({ state }: ContainerStatus): SyncError | undefined {
  return state.waiting && { reason: state.waiting.reason, message: state.waiting.message ?? "" };
}

/** Init containers run before the others, which wait for them. */
function waitings(pod: Pod | undefined): readonly SyncError[] {
  const { initContainerStatuses = [], containerStatuses = [] } = pod?.status ?? {};
  const before = initContainerStatuses.flatMap((status) => {
    const waiting = waitingOf(status);
    if (pod === undefined || waiting === undefined) return [];
    const { reason, message } = waiting;
    return [{ reason, message: sayWaiting(pod, status.name, message) }];
  });
  return [...before, ...containerStatuses.flatMap((status) => waitingOf(status) ?? [])];
}

function isStuck({ reason }: SyncError): boolean {
  return STUCK.has(reason);
}

/** What the pod's containers wait for, if they wait: first what does not end by itself, last what each pod waits for. */
export function findWaiting(pod: Pod | undefined): SyncError | undefined {
  const all = waitings(pod);
  return all.find(isStuck) ?? all.at(-1);
}

function unsupported(problems: readonly FieldProblem[]): SyncError | undefined {
  if (problems.length === 0) return undefined;
  return { reason: "UnsupportedSpec", message: sayProblems(problems) };
}

/** The scheduler finds no node. Source: Kubernetes PodScheduled, PodReasonUnschedulable. */
function unschedulable(pod: Pod | undefined): SyncError | undefined {
  const told = pod?.status?.conditions?.find(({ type }) => type === "PodScheduled");
  if (told?.status !== "False" || told.reason !== "Unschedulable") return undefined;
  return { reason: told.reason, message: told.message ?? "" };
}

/** The node has refused or ended the pod itself, and says why. Source: Kubernetes kubelet, UnexpectedAdmissionError, Evicted. */
export function podFailure(pod: Pod | undefined): SyncError | undefined {
  const { phase, reason = "", message = "" } = pod?.status ?? {};
  return phase === "Failed" && reason !== "" ? { reason, message } : undefined;
}

/** The launcher would find an empty directory. Source: Kubernetes KEP-4639 "image volume source". */
function dropped(pod: Pod | undefined): SyncError | undefined {
  if (pod === undefined || !hasLostImage(pod)) return undefined;
  const message =
    "the API server or the node's runtime does not support image volumes, which the launcher pod uses; the pod is replaced by one that copies the image's files";
  return { reason: "PodFieldDropped", message };
}

function stuck(pod: Pod | undefined): SyncError | undefined {
  return waitings(pod).find(isStuck);
}

const KERNEL_NOT_COPIED = "KernelNotCopied";
const DISK_NOT_PREPARED = "DiskNotPrepared";
const HOOK_ENDED = "HookSidecarEnded";
/** What a start tells that the next one, after a pause, may tell again. */
const OF_STARTS: readonly string[] = [KERNEL_NOT_COPIED, DISK_NOT_PREPARED, HOOK_ENDED];

type End = NonNullable<ContainerStatus["state"]["terminated"]>;

/** Its last words, else how it ended. */
function sayEnd({ message = "", reason = "Error", exitCode }: End): string {
  const lines = message.split("\n").map((line) => line.trim());
  const said = lines.filter((line) => line !== "").join("; ");
  return said === "" ? `${reason}, exit code ${String(exitCode)}` : said;
}

/** What a container was to do. */
function notDone(pod: Pod, name: string, end: End): SyncError {
  const said = sayEnd(end);
  if (name === PREPARE_CONTAINER) return { reason: DISK_NOT_PREPARED, message: said };
  const message = `${sayImageOf(pod, name)}: ${said}`;
  return volumeIndexOf(name) === undefined
    ? { reason: KERNEL_NOT_COPIED, message: `kernel and initrd were not copied: ${message}` }
    : { reason: DISK_NOT_PREPARED, message: `the disk was not copied: ${message}` };
}

/** A container that was to make something for the guest has failed, and the pod with it. */
function notPrepared(pod: Pod | undefined): SyncError | undefined {
  for (const { name, state } of pod?.status?.initContainerStatuses ?? []) {
    const end = state.terminated;
    if (pod === undefined || end === undefined || end.exitCode === 0) continue;
    return notDone(pod, name, end);
  }
  return undefined;
}

/** A hook has failed before the guest ran: afterwards nobody asks it. */
export function hookFailure(
  vmi: VirtualMachineInstance,
  pod: Pod | undefined,
): SyncError | undefined {
  const failed = pod === undefined || hasEverRun(vmi) ? undefined : failedHookOf(pod);
  const end = failed?.state.terminated;
  if (failed === undefined || end === undefined) return undefined;
  const message = `the hook ${failed.name} (image ${failed.image}) has ended: ${sayEnd(end)}; correct it, then start the VM again`;
  return { reason: HOOK_ENDED, message };
}

/** What there is to be of storage, before the pod is made. */
function storageSyncError({ vmi, pod, storage }: VmiSituation): SyncError | undefined {
  return pod === undefined && !isVmiFinal(vmi) ? storageHindrance(vmi, storage) : undefined;
}

/** What is known of a VMI. */
export interface VmiSituation {
  readonly vmi: VirtualMachineInstance;
  /** The owner's. */
  readonly pod: Pod | undefined;
  readonly network: NetworkConfig;
  readonly storage: StorageFacts;
  /** Steps that the API server does not allow. */
  readonly failures: readonly StepFailure[];
  /** Networks that the pod's node cannot make NICs of. */
  readonly absences: NetworkAbsences;
  /** The pod's node does not answer. */
  readonly nodeLoss?: NodeLoss;
}

/** What virt-handler tells of the VM as a whole. */
function toldByNode({ status }: VirtualMachineInstance): SyncError | undefined {
  const { reason, message } = status?.hindrance ?? {};
  if (reason === undefined || message === undefined) return undefined;
  // What ends by itself a moment later stands in nobody's way.
  return eventTypeOf(reason) === undefined ? undefined : { reason, message };
}

/** Why the guest does not start, or cannot be worked with. */
function ofStart({ vmi, pod }: VmiSituation): SyncError | undefined {
  return hookFailure(vmi, pod) ?? toldByNode(vmi);
}

/** Of a VMI. */
export function vmiSyncError(situation: VmiSituation): SyncError | undefined {
  const { vmi, pod, network, failures, nodeLoss } = situation;
  return (
    unsupported(vmiStartProblems(vmi, network)) ??
    nodeLoss ??
    storageSyncError(situation) ??
    sayFailures(failures) ??
    dropped(pod) ??
    ofStart(situation) ??
    unschedulable(pod) ??
    podFailure(pod) ??
    notPrepared(pod) ??
    stuck(pod)
  );
}

/** What is known of a VM. */
export interface VmSituation {
  readonly vm: VirtualMachine;
  /** The VM's own. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** Why it cannot be started. */
  readonly startProblems: readonly FieldProblem[];
  /** A VMI of the VM's name is there that is not the VM's. */
  readonly isNameTaken: boolean;
  /** That VMI is being deleted, or its VM was: the name is free soon. */
  readonly isTakerLeaving?: boolean;
  /** What the cluster has registered. */
  readonly bindings: BindingRegistry;
  /** Changes of NICs wait for the next start. */
  readonly isStaged: boolean;
  /** A claim of the VMI has no volume yet. */
  readonly waitsForBinding: boolean;
  /** Absent: the VM is what it says itself. */
  readonly parts?: PartsFacts;
  /** Steps that the API server does not allow. */
  readonly failures: readonly StepFailure[];
}

function nameTaken({ vm, isNameTaken, isTakerLeaving }: VmSituation): SyncError | undefined {
  if (!isNameTaken || isTakerLeaving === true) return undefined;
  const message = `a VirtualMachineInstance ${vm.metadata.name} exists that does not belong to this VM; delete it or rename the VM`;
  return { reason: "NameTaken", message };
}

/** Source: KubeVirt pkg/instancetype/controller/vm, whose words these are. */
const MISSING = {
  instancetype: "FailedFindInstancetype",
  preference: "FailedFindPreference",
} as const;

function missingPart({ parts }: VmSituation): SyncError | undefined {
  const [first] = parts?.missing ?? [];
  return first && { reason: MISSING[first.part], message: first.message };
}

/** What its VMI tells; between two starts, which an image may make fail one after the other, what the last one told. */
function toldByVmi({ vm, vmi }: VmSituation): SyncError | undefined {
  if (vmi !== undefined) return findSyncError(vmi.status?.conditions);
  const told = vm.status?.startFailure && findSyncError(vm.status.conditions);
  return told !== undefined && OF_STARTS.includes(told.reason) ? told : undefined;
}

/** Of a VM: its own, else that of its VMI. */
export function vmSyncError(situation: VmSituation): SyncError | undefined {
  const { startProblems, failures } = situation;
  return (
    missingPart(situation) ??
    unsupported(startProblems) ??
    nameTaken(situation) ??
    sayFailures(failures) ??
    toldByVmi(situation)
  );
}

/** What the condition says. */
export function synchronizedCondition(
  syncError: SyncError | undefined,
): readonly (SyncError & Pick<Condition, "type" | "status">)[] {
  return syncError === undefined ? [] : [{ type: SYNCHRONIZED, status: "False", ...syncError }];
}

/** What an object's conditions tell of what stands in the way. */
export function findSyncError(conditions: readonly Condition[] | undefined): SyncError | undefined {
  const told = conditions?.find(({ type }) => type === SYNCHRONIZED);
  if (told?.status !== "False") return undefined;
  return { reason: told.reason ?? "", message: told.message ?? "" };
}

/** The one that is told now and was not told before, for an event. */
export function newSyncError(
  before: readonly Condition[] | undefined,
  now: readonly Condition[] | undefined,
): SyncError | undefined {
  const [old, told] = [findSyncError(before), findSyncError(now)];
  return old?.reason === told?.reason && old?.message === told?.message ? undefined : told;
}
