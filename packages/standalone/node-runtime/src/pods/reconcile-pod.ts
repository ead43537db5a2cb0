// SPDX-License-Identifier: Apache-2.0
// Reconciles one pod. The key is the uid, because an older pod of the same name may still be terminating.
import { isAppError, messageOf, type AppError, covers, isEqual } from "@patchbay/base";
import {
  earliest,
  runSteps,
  type FailedStep,
  type StepRules,
  keyOf,
  printTime,
  after,
  done,
  type Next,
} from "@patchbay/kube";
import type { PodDeps, ProbedContainer } from "./deps.ts";
import {
  buildContainerStepName,
  SANDBOX_STEP,
  VOLUMES_STEP,
  type PodFacts,
  type Reason,
  findFinalRejection,
  type LivePodFacts,
  findReadySandbox,
} from "./facts.ts";
import { serializeInputs, observe } from "./observe.ts";
import { type PodAction, planPod } from "./plan.ts";
import { startVolumes, executeStep, type Progress, type ExecutedAction } from "./steps.ts";
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { hasForeignCondition, buildPodStatus } from "./pod-status.ts";
import type { Change } from "@patchbay/core/interfaces";

function findStepName(action: ExecutedAction): string | undefined {
  if (action.kind === "prepareVolumes") return VOLUMES_STEP;
  if (action.kind === "runSandbox") return SANDBOX_STEP;
  return action.kind === "startContainer" ? buildContainerStepName(action.container) : undefined;
}

const CREATING_REASON = "ContainerCreating";
/** Reason of the event that reports a failed step, by step. Source: events of the kubelet. */
const EVENT_REASONS: Readonly<Record<string, string>> = {
  [VOLUMES_STEP]: "FailedMount",
  [SANDBOX_STEP]: "FailedCreatePodSandBox",
};

function toReason(action: ExecutedAction, error: AppError): Reason {
  const message = messageOf(error);
  if (action.kind !== "startContainer") return { reason: CREATING_REASON, message };
  const isRefused = isAppError(error, "RUNTIME_CONTAINER_REFUSED");
  return { reason: isRefused ? "CreateContainerConfigError" : "CreateContainerError", message };
}

interface PlanResult {
  readonly hasActed: boolean;
  /** Delay before the next reconcile pass; undefined if the pod waits for a change. */
  readonly waitMs: number | undefined;
}

function isRequiredByLaterSteps({ kind }: ExecutedAction): boolean {
  return kind === "prepareVolumes" || kind === "runSandbox";
}

function canPause(error: unknown): error is AppError {
  return isAppError(error) && !isAppError(error, "CRI_UNAVAILABLE");
}

type FailedAction = FailedStep<ExecutedAction, Reason>;

function reportFailure(deps: PodDeps, { uid, pod }: PodFacts, failedAction: FailedAction): void {
  const { action, summary, pauseMs, error } = failedAction;
  const step = findStepName(action) ?? action.kind;
  const { message } = summary;
  const reason = EVENT_REASONS[step] ?? summary.reason;
  if (pod !== undefined) {
    deps.recorder.record(pod, { type: "Warning", reason, message, about: step });
  }
  const code = isAppError(error) ? error.code : undefined;
  deps.log.warn("step of a pod failed", {
    uid,
    action: action.kind,
    code,
    reason: message,
    waitMs: pauseMs,
  });
  if (action.kind !== "prepareVolumes") deps.sweeper.sweepAfterInterruption();
}

function createStepRules(deps: PodDeps, facts: PodFacts): StepRules<ExecutedAction, Reason> {
  const inputs = serializeInputs(facts.pod);
  return {
    backoff: deps.stepBackoff,
    toStep: (action) => {
      const name = findStepName(action);
      return name === undefined ? undefined : { scope: facts.uid, name, inputs };
    },
    explain: (action, error) => {
      if (!canPause(error)) throw error;
      return { code: error.code, summary: toReason(action, error) };
    },
    findWaitReason: (_, failed) =>
      failed.some(({ action }) => isRequiredByLaterSteps(action)) ? "skip" : undefined,
    report: (failed) => {
      reportFailure(deps, facts, failed);
    },
  };
}

/** @throws the error of a step if the whole reconcile pass must be retried, for example when the runtime is unavailable */
async function executePlan(
  plan: readonly PodAction[],
  facts: PodFacts,
  deps: PodDeps,
): Promise<PlanResult> {
  const startMs = deps.clock.monotonicMs();
  const progress: Progress = {
    sandboxContext: undefined,
    volumes: undefined,
    pendingVolumes: undefined,
  };
  if (plan.some(({ kind }) => kind === "runSandbox")) startVolumes(deps, facts, progress);
  const actions = plan.filter((action) => action.kind !== "wait");
  const waitTimes = plan.flatMap((action) => (action.kind === "wait" ? [action.ms] : []));
  const steps = runSteps(
    actions,
    (action) => executeStep(deps, facts, { action, progress }),
    createStepRules(deps, facts),
  );
  await steps.catch(() => undefined);
  await progress.pendingVolumes?.catch(() => undefined); // The preparation of volumes must not continue after this reconcile pass.
  const { done, retryInMs: retryMs } = await steps;
  const durationMs = Math.round(deps.clock.monotonicMs() - startMs);
  const kinds = done.map(({ kind }) => kind);
  if (kinds.length > 0) deps.log.info("pod changed", { uid: facts.uid, plan: kinds, durationMs });
  return { hasActed: actions.length > 0, waitMs: earliest([...waitTimes, retryMs]) };
}

/** Writes the pod's status if it changed. The caller must observe the facts after the plan's actions, whose effects the status includes. */
export async function reportStatus(facts: LivePodFacts, deps: PodDeps): Promise<void> {
  const { pod } = facts;
  const now = printTime(deps.clock.now());
  const { runtimeName: runtime, node } = deps;
  const status = buildPodStatus(facts, { printTime, runtime, hostIp: node.hostIp, now });
  if (covers(pod.status, status)) return;
  const rejection = findFinalRejection(facts);
  if (rejection !== undefined) deps.recorder.record(pod, { type: "Warning", ...rejection });
  // A merge patch replaces all conditions. The resourceVersion prevents the loss of other writers' conditions.
  const isShared = hasForeignCondition(status.conditions ?? []);
  const { resourceVersion } = pod.metadata;
  const fields = { status, ...(isShared && { metadata: { resourceVersion } }) };
  const patch = { type: "merge", fields } as const;
  await deps.statusStore.patch(PODS, keyOf(pod), patch, { subresource: "status" });
}

function listProbed(facts: PodFacts): readonly ProbedContainer[] {
  const { pod } = facts;
  const podIps = findReadySandbox(facts)?.ips ?? [];
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return [];
  return facts.containers
    .filter(({ state }) => state === "RUNNING")
    .map((container) => ({ pod, container, podIps }));
}

async function reportIfExists(facts: PodFacts, deps: PodDeps): Promise<void> {
  const { pod } = facts;
  if (pod === undefined) return;
  deps.probes.retain(facts.uid, listProbed(facts));
  const health = deps.probes.findHealth(facts.uid);
  try {
    await reportStatus({ ...facts, pod, health }, deps);
  } catch (error) {
    if (!isAppError(error, "KUBE_NOT_FOUND")) throw error;
  }
}

export async function reconcilePod(uid: string, deps: PodDeps): Promise<Next> {
  const facts = await observe(uid, deps);
  const plan = planPod(facts, deps.clock.now());
  const deletesObject = plan.some(({ kind }) => kind === "deleteObject");
  if (deletesObject) await reportIfExists(facts, deps); // After the deletion, no status can be written.
  const { hasActed, waitMs } = await executePlan(plan, facts, deps);
  if (!deletesObject) await reportIfExists(hasActed ? await observe(uid, deps) : facts, deps);
  return waitMs === undefined ? done() : after(waitMs);
}

/** Reports the results of probes without executing steps, which may be slow. Returns whether steps are due. */
async function reportProbes(uid: string, deps: PodDeps): Promise<boolean> {
  const facts = await observe(uid, deps);
  await reportIfExists(facts, deps);
  return planPod(facts, deps.clock.now()).length > 0;
}

const OVERLAP_RETRY_MS = 500;

/** Creates the passes of two queues. At most one of them runs at a time over a pod. */
export function createPasses(
  deps: PodDeps,
  wake: (uid: string) => void,
): Readonly<Record<"reconcile" | "reconcileProbes", (uid: string) => Promise<Next>>> {
  const running = new Set<string>();
  const runAlone = async <T>(uid: string, work: () => Promise<T>): Promise<T | undefined> => {
    if (running.has(uid)) return undefined;
    running.add(uid);
    try {
      return await work();
    } finally {
      running.delete(uid);
    }
  };
  return {
    reconcile: async (uid: string): Promise<Next> =>
      (await runAlone(uid, () => reconcilePod(uid, deps))) ?? after(OVERLAP_RETRY_MS),
    reconcileProbes: async (uid: string): Promise<Next> => {
      const areStepsDue = await runAlone(uid, () => reportProbes(uid, deps));
      if (areStepsDue === true) wake(uid);
      return areStepsDue === undefined ? after(OVERLAP_RETRY_MS) : done();
    },
  };
}

/** Removes fields that the pod's reconciler ignores, for example annotations that change with each plugged NIC. */
function withoutIgnoredFields({ metadata, ...otherFields }: Pod): unknown {
  const ignoredFields = {
    annotations: undefined,
    managedFields: undefined,
    resourceVersion: undefined,
  };
  return { ...otherFields, metadata: { ...metadata, ...ignoredFields } };
}

export function needsPass(change: Change<Pod>): boolean {
  return (
    change.kind !== "updated" ||
    !isEqual(withoutIgnoredFields(change.previous), withoutIgnoredFields(change.current))
  );
}
