// SPDX-License-Identifier: Apache-2.0
import {
  isPodFinished,
  isVmiFinal,
  names,
  parseNetworkStatus,
  parseAttachmentErrors,
  sanitizeNetworkStatus,
  type Pod,
  type VirtualMachineInstance,
  type VmiPhase,
  type VmiStatus,
  type PersistentVolumeClaim,
} from "@patchbay/api";
import { ADDRESS_CHANGED, addressesCondition } from "../nics/addresses/retained-addresses.ts";
import { attachmentStatuses, type PodNetworkFacts } from "../nics/status/attachments.ts";
import { type NodeLoss, hasRun } from "../node/node-loss.ts";
import {
  GUEST_HELD_CONDITION,
  buildPausedGuestCondition,
  findPausedGuestMessage,
} from "../migration/incoming.ts";
import { EVICTION_REQUESTED, evictionCondition } from "../migration/evacuation.ts";
import { openMigration } from "../migration/owner.ts";
import { findFailedHook } from "../hooks/hook-sidecars.ts";
import { hasMissingImage } from "../vm/pod/image-files.ts";
import { podNetworkElements } from "../vm/vmi.ts";
import {
  findCondition,
  PAUSED,
  READY,
  SYNCHRONIZED,
  withTransitionTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import { LIVE_MIGRATABLE, liveMigratableCondition } from "./live-migratable.ts";
import {
  findWaiting,
  hookFailure,
  podFailure,
  synchronizedCondition,
  vmiSyncError,
  type VmiStatusFacts,
} from "./sync-error.ts";
import { readClaimMode } from "../vm/spec/disk-files.ts";
import { findClaimName, listDisks } from "../vm/spec/disks.ts";
import { findByName } from "../nics/nics.ts";

type VolumeStatus = NonNullable<VmiStatus["volumeStatus"]>[number];

type ClaimInfo = NonNullable<VolumeStatus["persistentVolumeClaimInfo"]>;

function claimInfo(claim: PersistentVolumeClaim): ClaimInfo {
  const { capacity } = claim.status ?? {};
  const { accessModes, resources } = claim.spec;
  return {
    claimName: claim.metadata.name,
    volumeMode: readClaimMode(claim),
    ...(accessModes === undefined ? {} : { accessModes: [...accessModes] }),
    ...(capacity === undefined ? {} : { capacity: { ...capacity } }),
    ...(resources?.requests === undefined ? {} : { requests: { ...resources.requests } }),
  };
}

/** One entry for each disk, from which virt-handler learns whether a claim is a device or a file system. Missing claims keep their last entry. */
export function volumeStatuses(
  { spec, status }: VirtualMachineInstance,
  claims: ReadonlyMap<string, PersistentVolumeClaim>,
): readonly VolumeStatus[] {
  return listDisks(spec).map(({ name, source }) => {
    const before = findByName(status?.volumeStatus, name);
    const claim = claims.get(findClaimName(source) ?? "");
    return {
      ...(before ?? { name, target: "" }),
      ...(claim === undefined ? {} : { persistentVolumeClaimInfo: claimInfo(claim) }),
    };
  });
}

export type ControllerVmiStatus = Pick<
  VmiStatus,
  | "phase"
  | "reason"
  | "phaseTransitionTimestamps"
  | "nodeName"
  | "activePods"
  | "attachments"
  | "volumeStatus"
  | "conditions"
>;

export function podNetworkFacts(pod: Pod): PodNetworkFacts {
  const annotations = pod.metadata.annotations ?? {};
  return {
    elements: podNetworkElements(pod),
    networkStatus: parseNetworkStatus(annotations[names.NETWORK_STATUS_ANNOTATION]).map(
      sanitizeNetworkStatus,
    ),
    errors: parseAttachmentErrors(annotations[names.ATTACHMENT_ERRORS_ANNOTATION]),
    podIps: pod.status?.podIPs?.map(({ ip }) => ip) ?? [],
  };
}

/** How the guest ended, by its container. Other containers of the pod may still run. */
export function findGuestEnd(pod: Pod): VmiPhase | undefined {
  if (isPodFinished(pod)) return pod.status?.phase === "Succeeded" ? "Succeeded" : "Failed";
  const { containerStatuses = [] } = pod.status ?? {};
  const compute = containerStatuses.find(({ name }) => name === names.LAUNCHER_CONTAINER);
  const terminated = compute?.state.terminated;
  if (terminated === undefined) return undefined;
  return terminated.exitCode === 0 ? "Succeeded" : "Failed";
}

/** While a migration is open, the end of one pod does not show that the guest ended: it may be in the other pod. */
function phaseWithPod({ vmi, nodeLoss }: VmiStatusFacts, pod: Pod): VmiPhase {
  const end = openMigration(vmi) === undefined ? findGuestEnd(pod) : undefined;
  if (end !== undefined) return end;
  if (nodeLoss !== undefined) return "Unknown";
  // After Unknown, the phase that virt-handler last wrote counts again.
  if (hasRun(vmi)) return "Running";
  // The guest must not start without its hook.
  if (findFailedHook(pod) !== undefined) return "Failed";
  return pod.status?.phase === "Running" ? "Scheduled" : "Scheduling";
}

/**
 * Phases up to Scheduled, the end of the guest's pod, and Unknown while its node does not respond. virt-handler writes
 * Running. A missing pod is a failure unless a migration is open.
 */
function findPhase(situation: VmiStatusFacts, pod: Pod | undefined): VmiPhase {
  const { vmi } = situation;
  const current = vmi.status?.phase ?? "";
  if (isVmiFinal(vmi)) return current;
  if (pod !== undefined) return phaseWithPod(situation, pod);
  if (vmi.status?.activePods === undefined) return "Pending";
  return openMigration(vmi) === undefined ? "Failed" : current;
}

const LOST_REASON: NodeLoss["reason"] = "NodeUnresponsive";

/** The first time of each phase. Source: KubeVirt VirtualMachineInstancePhaseTransitionTimestamp. */
function phaseTransitions(
  vmi: VirtualMachineInstance,
  phase: VmiPhase,
  now: string,
): NonNullable<VmiStatus["phaseTransitionTimestamps"]> {
  const before = vmi.status?.phaseTransitionTimestamps ?? [];
  const isKnown = before.some((entry) => entry.phase === phase);
  return isKnown ? before : [...before, { phase, phaseTransitionTimestamp: now }];
}

/** Condition types that virt-controller writes. Others stay unchanged. */
const OWN_CONDITIONS: readonly string[] = [
  READY,
  SYNCHRONIZED,
  ADDRESS_CHANGED,
  LIVE_MIGRATABLE,
  GUEST_HELD_CONDITION,
  EVICTION_REQUESTED,
];

/** Only for guests that run, or ran before their node became unreachable. */
function migrationCondition({ vmi, storage, network }: VmiStatusFacts, phase: VmiPhase) {
  if (phase !== "Running" && phase !== "Unknown") return [];
  const { bindings } = network;
  return [liveMigratableCondition({ vmi, claims: storage.claims, bindings })];
}

/** Readiness of a running guest, by the launcher's probes. Source: KubeVirt syncReadyConditionFromPod. */
function podReadyCondition(pod: Pod | undefined): NewCondition {
  const reported = pod?.status?.conditions?.find(({ type }) => type === READY);
  if (reported?.status !== "False") return { type: READY, status: "True" };
  const { reason = "ContainersNotReady", message = "the launcher pod is not ready" } = reported;
  return { type: READY, status: "False", reason, message };
}

/** A paused guest is not ready. Source: KubeVirt readiness gate kubevirt.io/virtual-machine-unpaused. */
function runningReadyCondition({ vmi, pod }: VmiStatusFacts): NewCondition {
  const pausedMessage = findPausedGuestMessage(openMigration(vmi));
  if (pausedMessage !== undefined) {
    return { type: READY, status: "False", reason: GUEST_HELD_CONDITION, message: pausedMessage };
  }
  const isPaused = findCondition(vmi.status?.conditions, PAUSED)?.status === "True";
  if (!isPaused) return podReadyCondition(pod);
  const message = "the guest is paused: its processors stand still";
  return { type: READY, status: "False", reason: "ReadinessGatesNotReady", message };
}

function readyCondition(situation: VmiStatusFacts, phase: VmiPhase): NewCondition {
  if (phase === "Running") return runningReadyCondition(situation);
  const { vmi, pod, nodeLoss } = situation;
  const reported = nodeLoss ?? vmi.status?.hindrance ?? podFailure(pod) ?? findWaiting(pod);
  return {
    type: READY,
    status: "False",
    reason: reported?.reason ?? "GuestNotRunning",
    message: reported?.message ?? "Guest VM is not reported as running",
  };
}

function listConditions(
  facts: VmiStatusFacts,
  { phase, attachments = [] }: Pick<ControllerVmiStatus, "phase" | "attachments">,
  now: string,
): Conditions {
  const { vmi, pod } = facts;
  const stored = vmi.status?.conditions;
  const elements = pod === undefined ? [] : podNetworkElements(pod);
  const own = [
    readyCondition(facts, phase ?? ""),
    ...synchronizedCondition(vmiSyncError(facts)),
    ...addressesCondition(attachments, elements),
    ...migrationCondition(facts, phase ?? ""),
    ...buildPausedGuestCondition(openMigration(vmi)),
    ...evictionCondition(vmi),
  ];
  const others = (stored ?? []).filter(({ type }) => !OWN_CONDITIONS.includes(type));
  return [...withTransitionTimes(own, stored, now), ...others];
}

function volumeFields({ vmi, storage }: VmiStatusFacts): Pick<VmiStatus, "volumeStatus"> {
  const statuses = volumeStatuses(vmi, storage.claims);
  return statuses.length === 0 ? {} : { volumeStatus: [...statuses] };
}

/** Why a VMI has failed. Kept in the status, because the pod may be deleted before the VMI. */
function failureReason({ vmi, pod }: VmiStatusFacts, phase: VmiPhase): Pick<VmiStatus, "reason"> {
  const lost = vmi.status?.phase === "Unknown" ? LOST_REASON : undefined;
  const failure = podFailure(pod) ?? hookFailure(vmi, pod);
  const reason = failure?.reason ?? lost ?? vmi.status?.reason;
  return phase === "Failed" && reason !== undefined ? { reason } : {};
}

/** A pod that lost an image volume never runs the guest. It is replaced. */
function findLauncher({ vmi, pod }: VmiStatusFacts): Pod | undefined {
  const isReplaced = vmi.status?.activePods === undefined && pod !== undefined;
  return isReplaced && hasMissingImage(pod) ? undefined : pod;
}

/** The guest's pod. While a migration is open, the migration writes both pods. */
function activePodFields(
  vmi: VirtualMachineInstance,
  pod: Pod | undefined,
): Pick<ControllerVmiStatus, "activePods"> {
  const node = pod?.spec.nodeName;
  const uid = pod?.metadata.uid;
  const isMoving = openMigration(vmi) !== undefined;
  return isMoving || node === undefined || uid === undefined ? {} : { activePods: { [uid]: node } };
}

export function buildVmiStatus(facts: VmiStatusFacts, now: string): ControllerVmiStatus {
  const { vmi } = facts;
  const pod = findLauncher(facts);
  const node = pod?.spec.nodeName;
  const owner = { vmi, bindings: facts.network.bindings, absences: facts.absences };
  const attachments =
    pod === undefined ? undefined : attachmentStatuses(owner, podNetworkFacts(pod), facts.nodeLoss);
  const phase = findPhase(facts, pod);
  return {
    phase,
    ...failureReason(facts, phase),
    phaseTransitionTimestamps: phaseTransitions(vmi, phase, now),
    ...(node === undefined ? {} : { nodeName: node }),
    ...activePodFields(vmi, pod),
    ...(attachments === undefined || attachments.length === 0
      ? {}
      : { attachments: [...attachments] }),
    ...volumeFields(facts),
    conditions: listConditions(facts, { phase, attachments: [...(attachments ?? [])] }, now),
  };
}
