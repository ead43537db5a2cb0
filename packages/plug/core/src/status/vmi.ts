// SPDX-License-Identifier: Apache-2.0
// What virt-controller reports of a VMI: its own fields of the status only.
import {
  isPodFinished,
  isVmiFinal,
  names,
  parseNetworkStatus,
  parseAttachmentErrors,
  soundNetworkStatus,
  type Pod,
  type VirtualMachineInstance,
  type VmiPhase,
  type VmiStatus,
} from "@patchbay/api";
import { ADDRESS_CHANGED, addressesCondition } from "../addresses/kept-addresses.ts";
import { attachmentStatuses, type PodNetworkFacts } from "./ifaces/attachments.ts";
import type { NodeLoss } from "../node/node-loss.ts";
import { GUEST_HELD, heldCondition, heldMessage } from "../migration/control/held.ts";
import { EVICTION_REQUESTED, evictionCondition } from "../migration/evacuation.ts";
import { openMigration } from "../migration/owner.ts";
import { hasRun } from "../node/has-run.ts";
import { failedHookOf } from "../plan/pod/hook-sidecars.ts";
import { hasLostImage } from "../plan/pod/image-files.ts";
import { podNetworkElements } from "../plan/vm/vmi.ts";
import {
  findCondition,
  PAUSED,
  READY,
  SYNCHRONIZED,
  withTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import { LIVE_MIGRATABLE, liveMigratableCondition } from "./live-migratable.ts";
import { volumeStatuses } from "./volumes.ts";
import {
  findWaiting,
  hookFailure,
  podFailure,
  synchronizedCondition,
  vmiSyncError,
  type VmiSituation,
} from "./sync-error.ts";

/** The fields of a VMI's status that virt-controller writes. */
export type OwnVmiStatus = Pick<
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

/** What the pod says of its networks. */
export function podNetworkFacts(pod: Pod): PodNetworkFacts {
  const annotations = pod.metadata.annotations ?? {};
  return {
    elements: podNetworkElements(pod),
    networkStatus: parseNetworkStatus(annotations[names.NETWORK_STATUS_ANNOTATION]).map(
      soundNetworkStatus,
    ),
    errors: parseAttachmentErrors(annotations[names.ATTACHMENT_ERRORS_ANNOTATION]),
    podIps: pod.status?.podIPs?.map(({ ip }) => ip) ?? [],
  };
}

/** How the guest has ended with its container, which may be over before the others of the pod. */
export function endOf(pod: Pod): VmiPhase | undefined {
  if (isPodFinished(pod)) return pod.status?.phase === "Succeeded" ? "Succeeded" : "Failed";
  const { containerStatuses = [] } = pod.status ?? {};
  const compute = containerStatuses.find(({ name }) => name === names.LAUNCHER_CONTAINER);
  const terminated = compute?.state.terminated;
  if (terminated === undefined) return undefined;
  return terminated.exitCode === 0 ? "Succeeded" : "Failed";
}

/** While a migration is open, what becomes of a pod says nothing of the guest: it may be in the other one. */
function phaseWithPod({ vmi, nodeLoss }: VmiSituation, pod: Pod): VmiPhase {
  const end = openMigration(vmi) === undefined ? endOf(pod) : undefined;
  if (end !== undefined) return end;
  if (nodeLoss !== undefined) return "Unknown";
  // What has run goes on to run by virt-handler's word, which was withdrawn while nobody heard it.
  if (hasRun(vmi)) return "Running";
  // Without its hook the guest would be another.
  if (failedHookOf(pod) !== undefined) return "Failed";
  return pod.status?.phase === "Running" ? "Scheduled" : "Scheduling";
}

/**
 * Up to Scheduled, the end of the owner's pod, and Unknown while its node does not answer; Running belongs to
 * virt-handler. A pod that is gone is a failure, unless a migration is open.
 */
function phaseOfVmi(situation: VmiSituation, pod: Pod | undefined): VmiPhase {
  const { vmi } = situation;
  const current = vmi.status?.phase ?? "";
  if (isVmiFinal(vmi)) return current;
  if (pod !== undefined) return phaseWithPod(situation, pod);
  if (vmi.status?.activePods === undefined) return "Pending";
  return openMigration(vmi) === undefined ? "Failed" : current;
}

/** Its reason, once its pod is gone. */
const LOST_REASON: NodeLoss["reason"] = "NodeUnresponsive";

/** When each phase was seen first. Source: KubeVirt VirtualMachineInstancePhaseTransitionTimestamp. */
function transitionsOf(
  vmi: VirtualMachineInstance,
  phase: VmiPhase,
  now: string,
): NonNullable<VmiStatus["phaseTransitionTimestamps"]> {
  const before = vmi.status?.phaseTransitionTimestamps ?? [];
  const isKnown = before.some((entry) => entry.phase === phase);
  return isKnown ? before : [...before, { phase, phaseTransitionTimestamp: now }];
}

/** Types that virt-controller writes; others' are left alone. */
const OWN: readonly string[] = [
  READY,
  SYNCHRONIZED,
  ADDRESS_CHANGED,
  LIVE_MIGRATABLE,
  GUEST_HELD,
  EVICTION_REQUESTED,
];

/** Of a guest that runs, or ran when it was last heard of. */
function migrationCondition({ vmi, storage, network }: VmiSituation, phase: VmiPhase) {
  if (phase !== "Running" && phase !== "Unknown") return [];
  const { bindings } = network;
  return [liveMigratableCondition({ vmi, claims: storage.claims, bindings })];
}

/** What the launcher's probes say of a guest that runs. Source: KubeVirt syncReadyConditionFromPod. */
function readyByPod(pod: Pod | undefined): NewCondition {
  const told = pod?.status?.conditions?.find(({ type }) => type === READY);
  if (told?.status !== "False") return { type: READY, status: "True" };
  const { reason = "ContainersNotReady", message = "the launcher pod is not ready" } = told;
  return { type: READY, status: "False", reason, message };
}

/** Nobody is answered by a guest that stands still. Source: KubeVirt readiness gate kubevirt.io/virtual-machine-unpaused. */
function readyOfRunning({ vmi, pod }: VmiSituation): NewCondition {
  const held = heldMessage(openMigration(vmi));
  if (held !== undefined) {
    return { type: READY, status: "False", reason: GUEST_HELD, message: held };
  }
  const isPaused = findCondition(vmi.status?.conditions, PAUSED)?.status === "True";
  if (!isPaused) return readyByPod(pod);
  const message = "the guest is paused: its processors stand still";
  return { type: READY, status: "False", reason: "ReadinessGatesNotReady", message };
}

function readyCondition(situation: VmiSituation, phase: VmiPhase): NewCondition {
  if (phase === "Running") return readyOfRunning(situation);
  const { vmi, pod, nodeLoss } = situation;
  const told = nodeLoss ?? vmi.status?.hindrance ?? podFailure(pod) ?? findWaiting(pod);
  return {
    type: READY,
    status: "False",
    reason: told?.reason ?? "GuestNotRunning",
    message: told?.message ?? "Guest VM is not reported as running",
  };
}

function conditionsOf(
  facts: VmiSituation,
  { phase, attachments = [] }: Pick<OwnVmiStatus, "phase" | "attachments">,
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
    ...heldCondition(openMigration(vmi)),
    ...evictionCondition(vmi),
  ];
  const others = (stored ?? []).filter(({ type }) => !OWN.includes(type));
  return [...withTimes(own, stored, now), ...others];
}

/** What is known of each volume; nothing where there are no volumes. */
function volumeFields({ vmi, storage }: VmiSituation): Pick<VmiStatus, "volumeStatus"> {
  const statuses = volumeStatuses(vmi, storage.claims);
  return statuses.length === 0 ? {} : { volumeStatus: [...statuses] };
}

/** Why a VMI has failed, as far as its node says so, or does not; the pod may be gone before the VMI. */
function reasonOf({ vmi, pod }: VmiSituation, phase: VmiPhase): Pick<VmiStatus, "reason"> {
  const lost = vmi.status?.phase === "Unknown" ? LOST_REASON : undefined;
  const failure = podFailure(pod) ?? hookFailure(vmi, pod);
  const reason = failure?.reason ?? lost ?? vmi.status?.reason;
  return phase === "Failed" && reason !== undefined ? { reason } : {};
}

/** A pod that lost its kernel never has the guest: it goes, and another one comes. */
function findLauncher({ vmi, pod }: VmiSituation): Pod | undefined {
  const isReplaced = vmi.status?.activePods === undefined && pod !== undefined;
  return isReplaced && hasLostImage(pod) ? undefined : pod;
}

/** The pods of the guest; while it moves there are two, of which its migration tells. */
function activePodsOf(
  vmi: VirtualMachineInstance,
  pod: Pod | undefined,
): Pick<OwnVmiStatus, "activePods"> {
  const node = pod?.spec.nodeName;
  const uid = pod?.metadata.uid;
  const isMoving = openMigration(vmi) !== undefined;
  return isMoving || node === undefined || uid === undefined ? {} : { activePods: { [uid]: node } };
}

/** virt-controller's part of the status; `now` is RFC 3339. */
export function ownVmiStatus(facts: VmiSituation, now: string): OwnVmiStatus {
  const { vmi } = facts;
  const pod = findLauncher(facts);
  const node = pod?.spec.nodeName;
  const owner = { vmi, bindings: facts.network.bindings, absences: facts.absences };
  const attachments =
    pod === undefined ? undefined : attachmentStatuses(owner, podNetworkFacts(pod), facts.nodeLoss);
  const phase = phaseOfVmi(facts, pod);
  return {
    phase,
    ...reasonOf(facts, phase),
    phaseTransitionTimestamps: transitionsOf(vmi, phase, now),
    ...(node === undefined ? {} : { nodeName: node }),
    ...activePodsOf(vmi, pod),
    ...(attachments === undefined || attachments.length === 0
      ? {}
      : { attachments: [...attachments] }),
    ...volumeFields(facts),
    conditions: conditionsOf(facts, { phase, attachments: [...(attachments ?? [])] }, now),
  };
}
