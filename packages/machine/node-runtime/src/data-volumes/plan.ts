// SPDX-License-Identifier: Apache-2.0
// What is done next for one DataVolume: its claim is created, filled once by a pod, and reported. Pure.
import {
  apiVersionOf,
  PERSISTENT_VOLUME_CLAIMS,
  type Condition,
  type DataVolume,
  type DataVolumeStatus,
  type PersistentVolumeClaim,
  type Pod,
} from "@patchbay/api";
import {
  claimModeOf,
  FILL_MESSAGE_ANNOTATION,
  FILL_PHASE_ANNOTATION,
  FILL_STATE_ANNOTATION,
  FILLED,
  isEqual,
  readDataVolume,
  type FillOrder,
} from "@patchbay/core";
import { fillerPodOf, isOwnedBy, ownedBy } from "./filler-pod.ts";
import { progressOf, type FillProgress } from "./progress.ts";

/** How long a pod that can never run again is left as it is, milliseconds, before the next one is created. */
const RETRY_MS = 30_000;
/** How often a claim in use is observed again, milliseconds. */
const IN_USE_MS = 5_000;

/** What is known of one DataVolume. */
export interface DataVolumeFacts {
  readonly dataVolume: DataVolume;
  /** The claim with the name of the DataVolume, which another client may have created. */
  readonly claim: PersistentVolumeClaim | undefined;
  /** The pod that fills it. */
  readonly pod: Pod | undefined;
  /** The claim that is copied; unset for other sources, and while it does not exist. */
  readonly sourceClaim: PersistentVolumeClaim | undefined;
  /** Names of pods that use the claim that is copied. */
  readonly sourceUsers: readonly string[];
  /** RFC 3339. */
  readonly now: string;
}

/** One step; each may be repeated. */
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

/** The steps in their order, and when to observe again although nothing changes. */
export interface DataVolumePlan {
  readonly actions: readonly DataVolumeAction[];
  readonly lookAgainMs?: number;
}

/** What is reported of a DataVolume. */
interface Report extends FillProgress {
  readonly isBound: boolean;
  readonly dataVolumePhase: string;
}

function conditionOf(
  before: readonly Condition[],
  condition: Omit<Condition, "lastTransitionTime">,
  now: string,
): Condition {
  const old = before.find(({ type }) => type === condition.type);
  const since = old?.status === condition.status ? (old.lastTransitionTime ?? now) : now;
  return { ...condition, lastTransitionTime: since };
}

function flag(value: boolean): "True" | "False" {
  return value ? "True" : "False";
}

function statusOf({ dataVolume, now }: DataVolumeFacts, report: Report): DataVolumeStatus {
  const before = dataVolume.status?.conditions ?? [];
  const { isBound, isFailing, message, phase, dataVolumePhase } = report;
  const isRunning = phase === "Running" && !isFailing;
  const reason = isFailing ? "Error" : phase === FILLED ? "Completed" : phase;
  const told = message === "" ? {} : { message };
  return {
    claimName: dataVolume.metadata.name,
    phase: dataVolumePhase,
    progress: phase === FILLED ? "100.0%" : "N/A",
    conditions: [
      conditionOf(
        before,
        { type: "Bound", status: flag(isBound), reason: isBound ? "Bound" : "Pending" },
        now,
      ),
      conditionOf(before, { type: "Running", status: flag(isRunning), reason, ...told }, now),
      conditionOf(before, { type: "Ready", status: flag(phase === FILLED), reason }, now),
    ],
  };
}

function phaseOf({ source }: FillOrder, { phase }: FillProgress): string {
  const verb = source.kind === "pvc" ? "Clone" : "Import";
  if (phase === FILLED) return "Succeeded";
  return phase === "Running" ? `${verb}InProgress` : `${verb}Scheduled`;
}

function planStatus(facts: DataVolumeFacts, report: Report): readonly DataVolumeAction[] {
  const status = statusOf(facts, report);
  return isEqual(status, facts.dataVolume.status) ? [] : [{ kind: "reportStatus", status }];
}

/** The annotations by which a VM waits for its claim. */
function annotationsOf({
  phase,
  isFailing,
  message,
}: FillProgress): Readonly<Record<string, string>> {
  return {
    [FILL_PHASE_ANNOTATION]: phase,
    [FILL_STATE_ANNOTATION]: isFailing ? "Error" : "",
    [FILL_MESSAGE_ANNOTATION]: message,
  };
}

function planNote(progress: FillProgress): readonly DataVolumeAction[] {
  if (progress.phase === FILLED) {
    return [
      { kind: "note", type: "Normal", reason: "FillSucceeded", message: "the claim is filled" },
    ];
  }
  if (!progress.isFailing) return [];
  const message = `the claim cannot be filled, which is tried again: ${progress.message}`;
  return [{ kind: "note", type: "Warning", reason: "FillFailed", message }];
}

function planReport(
  facts: DataVolumeFacts,
  claim: PersistentVolumeClaim,
  at: { readonly order: FillOrder; readonly progress: FillProgress },
): readonly DataVolumeAction[] {
  const { progress, order } = at;
  const annotations = annotationsOf(progress);
  const { annotations: before = {} } = claim.metadata;
  const isNew = Object.entries(annotations).some(([key, text]) => (before[key] ?? "") !== text);
  const isBound = claim.status?.phase === "Bound";
  const report = { ...progress, isBound, dataVolumePhase: phaseOf(order, progress) };
  return [
    ...(isNew ? [{ kind: "reportClaim", claim, annotations } as const, ...planNote(progress)] : []),
    ...planStatus(facts, report),
  ];
}

function newClaimOf({ dataVolume }: DataVolumeFacts, order: FillOrder): PersistentVolumeClaim {
  const { name, namespace = "", labels = {} } = dataVolume.metadata;
  const { size, accessModes, volumeMode, storageClassName } = order;
  return {
    apiVersion: apiVersionOf(PERSISTENT_VOLUME_CLAIMS),
    kind: PERSISTENT_VOLUME_CLAIMS.kind,
    metadata: {
      name,
      namespace,
      labels,
      // From its first moment on no VM takes it for a disk.
      annotations: { [FILL_PHASE_ANNOTATION]: "Pending" },
      ...ownedBy(dataVolume),
    },
    spec: {
      accessModes,
      volumeMode,
      resources: { requests: { storage: size } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
}

function waiting(message: string): FillProgress {
  return { phase: "Pending", isFailing: false, message };
}

/** Why the source cannot be copied yet; unset when it can. */
function sourceWait({ sourceClaim, sourceUsers }: DataVolumeFacts, { source }: FillOrder) {
  if (source.kind !== "pvc") return undefined;
  const name = `the claim ${source.claimName}`;
  if (sourceClaim === undefined) return `${name}, which is to be copied, does not exist`;
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
  const wait = sourceWait(facts, order);
  if (wait !== undefined) {
    const actions = planReport(facts, claim, { order, progress: waiting(wait) });
    return { actions, lookAgainMs: IN_USE_MS };
  }
  const sourceMode = claimModeOf(facts.sourceClaim);
  const pod = fillerPodOf(facts.dataVolume, { order, sourceMode });
  return {
    actions: [
      ...planReport(facts, claim, { order, progress: waiting("") }),
      { kind: "createPod", pod },
    ],
  };
}

/** A pod that was evicted or refused never runs again. */
function planNextPod({ now }: DataVolumeFacts, pod: Pod): DataVolumePlan {
  // oxlint-disable-next-line no-restricted-globals -- converts given times, reads no clock
  const [since, at] = [pod.metadata.creationTimestamp ?? now, now].map((time) => Date.parse(time));
  const leftMs = (since ?? 0) + RETRY_MS - (at ?? 0);
  return leftMs > 0
    ? { actions: [], lookAgainMs: leftMs }
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
  const report = planReport(facts, claim, { order, progress: progressOf(pod) });
  if (pod.status?.phase !== "Failed") return { actions: report };
  const next = planNextPod(facts, pod);
  return { ...next, actions: [...report, ...next.actions] };
}

/** A DataVolume that cannot be served as it is. */
function planRefusal(facts: DataVolumeFacts, message: string): DataVolumePlan {
  const report = { phase: "Pending", isFailing: true, isBound: false, message } as const;
  const status = planStatus(facts, { ...report, dataVolumePhase: "Failed" });
  const note = { kind: "note", type: "Warning", reason: "FillRefused", message } as const;
  return { actions: status.length === 0 ? [] : [note, ...status] };
}

function deletion(pod: Pod | undefined): readonly DataVolumeAction[] {
  const isDeleted = pod === undefined || pod.metadata.deletionTimestamp !== undefined;
  return isDeleted ? [] : [{ kind: "deletePod", pod }];
}

/** The steps for a DataVolume; none when it is as requested. */
export function planDataVolume(facts: DataVolumeFacts): DataVolumePlan {
  const { dataVolume, claim, pod } = facts;
  const { name, namespace = "", deletionTimestamp } = dataVolume.metadata;
  if (deletionTimestamp !== undefined) return { actions: [] };
  const read = readDataVolume(dataVolume.spec, namespace);
  if ("causes" in read) {
    return planRefusal(facts, read.causes.map(({ message }) => message).join("; "));
  }
  const { order } = read;
  if (claim === undefined) {
    return { actions: [{ kind: "createClaim", claim: newClaimOf(facts, order) }] };
  }
  if (!isOwnedBy(claim, dataVolume)) {
    const message = `the claim ${name} exists and was not created for this DataVolume; it is left as it is: delete it, or name the DataVolume otherwise`;
    return planRefusal(facts, message);
  }
  // A claim that is deleted waits for the pods that use it.
  if (claim.metadata.deletionTimestamp !== undefined) return { actions: deletion(pod) };
  if (claim.metadata.annotations?.[FILL_PHASE_ANNOTATION] !== FILLED) {
    return planFilling(facts, claim, order);
  }
  const progress = { phase: FILLED, isFailing: false, message: "" } as const;
  return { actions: [...planReport(facts, claim, { order, progress }), ...deletion(pod)] };
}
