// SPDX-License-Identifier: Apache-2.0
// Plans the next steps for one DataVolume.
import {
  apiVersionOf,
  PERSISTENT_VOLUME_CLAIMS,
  type DataVolume,
  type DataVolumeStatus,
} from "@patchbay/api";
import type {
  ContainerStateDetails,
  ContainerStatus,
  Pod,
  Condition,
  PersistentVolumeClaim,
} from "@patchbay/api/kubernetes";
import { FILL_CONTAINER, buildFillerPod, isOwnedBy, buildOwnerReferences } from "./filler-pod.ts";
import {
  readVolumeMode,
  FILL_MESSAGE_ANNOTATION,
  FILL_PHASE_ANNOTATION,
  FILL_STATE_ANNOTATION,
  FILLED,
  readDataVolume,
  type FillOrder,
} from "@patchbay/core/vm";
import { isEqual } from "@patchbay/base";

interface FillProgress {
  readonly phase: "Pending" | "Running" | "Succeeded";
  readonly hasFailed: boolean;
  /** Cause of a failure or delay; empty otherwise. */
  readonly message: string;
}

/** Waiting reasons of a container that is being started. Source: kubelet. */
const STARTING_REASONS: readonly string[] = ["ContainerCreating", "PodInitializing"];

const RUNNING_PROGRESS: FillProgress = { phase: "Running", hasFailed: false, message: "" };

function findFailure({ terminated }: ContainerStateDetails = {}): string | undefined {
  if (terminated === undefined || terminated.exitCode === 0) return undefined;
  const { message = "", reason = "", exitCode } = terminated;
  const text = message.trim();
  return text === "" ? `${reason === "" ? "" : `${reason}, `}exit code ${String(exitCode)}` : text;
}

function findLastFailure({ state, lastState }: Partial<ContainerStatus>): string | undefined {
  return findFailure(state) ?? findFailure(lastState);
}

function buildPendingProgress(pod: Pod): FillProgress {
  const condition = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const message = condition?.status === "False" ? (condition.message ?? "") : "";
  return { phase: "Pending", hasFailed: false, message };
}

function buildFailedProgress(phase: "Pending" | "Running", message: string): FillProgress {
  return { phase, hasFailed: true, message };
}

function joinParts(...parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== "").join(": ");
}

function describeUnfinished(
  pod: Pod,
  { state }: Partial<ContainerStatus>,
  failure: string | undefined,
) {
  if (state?.running !== undefined) return RUNNING_PROGRESS;
  if (failure !== undefined) return buildFailedProgress("Running", failure);
  const { reason = "", message } = state?.waiting ?? {};
  if (reason === "" || STARTING_REASONS.includes(reason)) return buildPendingProgress(pod);
  return buildFailedProgress("Pending", joinParts(reason, message));
}

export function parseProgress(pod: Pod): FillProgress {
  const { phase, message, reason, containerStatuses = [] } = pod.status ?? {};
  if (phase === "Succeeded") return { phase, hasFailed: false, message: "" };
  const container = containerStatuses.find(({ name }) => name === FILL_CONTAINER) ?? {};
  const failure = findLastFailure(container);
  if (phase === "Failed")
    return buildFailedProgress("Pending", failure ?? joinParts(reason, message));
  return describeUnfinished(pod, container, failure);
}

const POD_REPLACEMENT_DELAY_MS = 30_000;
const IN_USE_RECHECK_INTERVAL_MS = 5_000;

export interface DataVolumeFacts {
  readonly dataVolume: DataVolume;
  /** Claim with the DataVolume's name, if it exists. Another client may have created this claim. */
  readonly claim: PersistentVolumeClaim | undefined;
  readonly pod: Pod | undefined;
  /** Claim to copy; undefined if the source is not a claim or the claim does not exist. */
  readonly sourceClaim: PersistentVolumeClaim | undefined;
  readonly sourceUsers: readonly string[];
  readonly now: string;
}

export type DataVolumeAction =
  | { readonly kind: "createClaim"; readonly claim: PersistentVolumeClaim }
  | { readonly kind: "createPod"; readonly pod: Pod }
  | { readonly kind: "deletePod"; readonly pod: Pod }
  | {
      readonly kind: "reportClaim";
      readonly claim: PersistentVolumeClaim;
      readonly annotations: Readonly<Record<string, string>>;
    }
  | { readonly kind: "reportStatus"; readonly status: DataVolumeStatus }
  | {
      readonly kind: "note";
      readonly type: "Normal" | "Warning";
      readonly reason: string;
      readonly message: string;
    };

interface DataVolumePlan {
  readonly actions: readonly DataVolumeAction[];
  readonly requeueAfterMs?: number;
}

interface Report extends FillProgress {
  readonly isBound: boolean;
  readonly dataVolumePhase: string;
}

function buildCondition(
  previous: readonly Condition[],
  condition: Omit<Condition, "lastTransitionTime">,
  now: string,
): Condition {
  const matching = previous.find(({ type }) => type === condition.type);
  const lastTransitionTime =
    matching?.status === condition.status ? (matching.lastTransitionTime ?? now) : now;
  return { ...condition, lastTransitionTime };
}

function toConditionStatus(value: boolean): "True" | "False" {
  return value ? "True" : "False";
}

function buildStatus({ dataVolume, now }: DataVolumeFacts, report: Report): DataVolumeStatus {
  const previous = dataVolume.status?.conditions ?? [];
  const { isBound, hasFailed, message, phase, dataVolumePhase } = report;
  const isRunning = phase === "Running" && !hasFailed;
  const reason = hasFailed ? "Error" : phase === FILLED ? "Completed" : phase;
  const messageFields = message === "" ? {} : { message };
  return {
    claimName: dataVolume.metadata.name,
    phase: dataVolumePhase,
    progress: phase === FILLED ? "100.0%" : "N/A",
    conditions: [
      buildCondition(
        previous,
        {
          type: "Bound",
          status: toConditionStatus(isBound),
          reason: isBound ? "Bound" : "Pending",
        },
        now,
      ),
      buildCondition(
        previous,
        { type: "Running", status: toConditionStatus(isRunning), reason, ...messageFields },
        now,
      ),
      buildCondition(
        previous,
        { type: "Ready", status: toConditionStatus(phase === FILLED), reason },
        now,
      ),
    ],
  };
}

function choosePhase({ source }: FillOrder, { phase }: FillProgress): string {
  const verb = source.kind === "pvc" ? "Clone" : "Import";
  if (phase === FILLED) return "Succeeded";
  return phase === "Running" ? `${verb}InProgress` : `${verb}Scheduled`;
}

function planStatus(facts: DataVolumeFacts, report: Report): readonly DataVolumeAction[] {
  const status = buildStatus(facts, report);
  return isEqual(status, facts.dataVolume.status) ? [] : [{ kind: "reportStatus", status }];
}

/** Builds the claim's annotations, which report to the VM's controller whether the claim is filled. */
function buildAnnotations({
  phase,
  hasFailed,
  message,
}: FillProgress): Readonly<Record<string, string>> {
  return {
    [FILL_PHASE_ANNOTATION]: phase,
    [FILL_STATE_ANNOTATION]: hasFailed ? "Error" : "",
    [FILL_MESSAGE_ANNOTATION]: message,
  };
}

function planNote(progress: FillProgress): readonly DataVolumeAction[] {
  if (progress.phase === FILLED) {
    return [
      { kind: "note", type: "Normal", reason: "FillSucceeded", message: "the claim is filled" },
    ];
  }
  if (!progress.hasFailed) return [];
  const message = `the claim cannot be filled and will be retried: ${progress.message}`;
  return [{ kind: "note", type: "Warning", reason: "FillFailed", message }];
}

function planReport(
  facts: DataVolumeFacts,
  claim: PersistentVolumeClaim,
  fill: { readonly order: FillOrder; readonly progress: FillProgress },
): readonly DataVolumeAction[] {
  const { progress, order } = fill;
  const annotations = buildAnnotations(progress);
  const { annotations: previous = {} } = claim.metadata;
  const isChanged = Object.entries(annotations).some(
    ([key, text]) => (previous[key] ?? "") !== text,
  );
  const isBound = claim.status?.phase === "Bound";
  const report = { ...progress, isBound, dataVolumePhase: choosePhase(order, progress) };
  return [
    ...(isChanged
      ? [{ kind: "reportClaim", claim, annotations } as const, ...planNote(progress)]
      : []),
    ...planStatus(facts, report),
  ];
}

function buildClaim({ dataVolume }: DataVolumeFacts, order: FillOrder): PersistentVolumeClaim {
  const { name, namespace = "", labels = {} } = dataVolume.metadata;
  const { size, accessModes, volumeMode, storageClassName } = order;
  return {
    apiVersion: apiVersionOf(PERSISTENT_VOLUME_CLAIMS),
    kind: PERSISTENT_VOLUME_CLAIMS.kind,
    metadata: {
      name,
      namespace,
      labels,
      // The annotation is set at creation, so that no VM uses the claim before it is filled.
      annotations: { [FILL_PHASE_ANNOTATION]: "Pending" },
      ...buildOwnerReferences(dataVolume),
    },
    spec: {
      accessModes,
      volumeMode,
      resources: { requests: { storage: size } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
}

function buildWaitingProgress(message: string): FillProgress {
  return { phase: "Pending", hasFailed: false, message };
}

function findSourceBlocker({ sourceClaim, sourceUsers }: DataVolumeFacts, { source }: FillOrder) {
  if (source.kind !== "pvc") return undefined;
  const name = `the claim ${source.claimName}`;
  if (sourceClaim === undefined) return `${name}, which is the source of the copy, does not exist`;
  if (sourceClaim.metadata.deletionTimestamp !== undefined) return `${name} is being deleted`;
  const phase = sourceClaim.metadata.annotations?.[FILL_PHASE_ANNOTATION] ?? FILLED;
  if (phase !== FILLED) return `${name} is being filled itself`;
  if (sourceUsers.length === 0) return undefined;
  return `${name} is in use by ${sourceUsers.map((pod) => `pod ${pod}`).join(", ")}; stop the VM that uses it`;
}

function planPod(
  facts: DataVolumeFacts,
  claim: PersistentVolumeClaim,
  order: FillOrder,
): DataVolumePlan {
  const blocker = findSourceBlocker(facts, order);
  if (blocker !== undefined) {
    const actions = planReport(facts, claim, { order, progress: buildWaitingProgress(blocker) });
    return { actions, requeueAfterMs: IN_USE_RECHECK_INTERVAL_MS };
  }
  const sourceMode = readVolumeMode(facts.sourceClaim);
  const pod = buildFillerPod(facts.dataVolume, { order, sourceMode });
  return {
    actions: [
      ...planReport(facts, claim, { order, progress: buildWaitingProgress("") }),
      { kind: "createPod", pod },
    ],
  };
}

/** Plans the deletion of a failed filler pod after a delay. The next plan creates a new pod. */
function planPodReplacement({ now }: DataVolumeFacts, pod: Pod): DataVolumePlan {
  const { creationTimestamp = now } = pod.metadata;
  // oxlint-disable-next-line no-restricted-globals -- converts given times, reads no clock
  const [createdMs, nowMs] = [creationTimestamp, now].map((time) => Date.parse(time));
  const remainingMs = (createdMs ?? 0) + POD_REPLACEMENT_DELAY_MS - (nowMs ?? 0);
  return remainingMs > 0
    ? { actions: [], requeueAfterMs: remainingMs }
    : { actions: [{ kind: "deletePod", pod }] };
}

function planFilling(
  facts: DataVolumeFacts,
  claim: PersistentVolumeClaim,
  order: FillOrder,
): DataVolumePlan {
  const { pod } = facts;
  if (pod === undefined) return planPod(facts, claim, order);
  if (pod.metadata.deletionTimestamp !== undefined) return { actions: [] };
  const report = planReport(facts, claim, { order, progress: parseProgress(pod) });
  if (pod.status?.phase !== "Failed") return { actions: report };
  const replacement = planPodReplacement(facts, pod);
  return { ...replacement, actions: [...report, ...replacement.actions] };
}

function planRejection(facts: DataVolumeFacts, message: string): DataVolumePlan {
  const report = { phase: "Pending", hasFailed: true, isBound: false, message } as const;
  const status = planStatus(facts, { ...report, dataVolumePhase: "Failed" });
  const note = { kind: "note", type: "Warning", reason: "FillRefused", message } as const;
  return { actions: status.length === 0 ? [] : [note, ...status] };
}

function planPodDeletion(pod: Pod | undefined): readonly DataVolumeAction[] {
  const isDeleted = pod === undefined || pod.metadata.deletionTimestamp !== undefined;
  return isDeleted ? [] : [{ kind: "deletePod", pod }];
}

export function planDataVolume(facts: DataVolumeFacts): DataVolumePlan {
  const { dataVolume, claim, pod } = facts;
  const { name, namespace = "", deletionTimestamp } = dataVolume.metadata;
  if (deletionTimestamp !== undefined) return { actions: [] };
  const parsed = readDataVolume(dataVolume.spec, namespace);
  if ("causes" in parsed) {
    return planRejection(facts, parsed.causes.map(({ message }) => message).join("; "));
  }
  const { order } = parsed;
  if (claim === undefined) {
    return { actions: [{ kind: "createClaim", claim: buildClaim(facts, order) }] };
  }
  if (!isOwnedBy(claim, dataVolume)) {
    const message = `the claim ${name} exists and was not created for this DataVolume; it is not changed. Delete it, or rename the DataVolume`;
    return planRejection(facts, message);
  }
  // The deleted claim disappears only when no pod uses it. The plan therefore deletes the pod that fills the claim.
  if (claim.metadata.deletionTimestamp !== undefined) return { actions: planPodDeletion(pod) };
  if (claim.metadata.annotations?.[FILL_PHASE_ANNOTATION] !== FILLED) {
    return planFilling(facts, claim, order);
  }
  const progress = { phase: FILLED, hasFailed: false, message: "" } as const;
  return { actions: [...planReport(facts, claim, { order, progress }), ...planPodDeletion(pod)] };
}
