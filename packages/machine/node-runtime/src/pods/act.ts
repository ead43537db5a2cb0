// SPDX-License-Identifier: Apache-2.0
// Carries out the plan of one pod. A step that fails is left alone for a while; what does not need it goes on.
import { isAppError, messageOf, type AppError } from "@patchbay/core";
import { earliest, runSteps, type FailedStep, type StepRules } from "@patchbay/kube";
import type { PodDeps } from "./deps.ts";
import { containerStep, SANDBOX_STEP, VOLUMES_STEP, type PodFacts, type Reason } from "./facts.ts";
import { circumstancesOf } from "./observe.ts";
import type { PodAction } from "./plan.ts";
import { beginVolumes, takeStep, type Progress, type TakenAction } from "./steps.ts";

/** The step's name, when its failure holds up this pod only for a while. */
function stepNameOf(action: TakenAction): string | undefined {
  if (action.kind === "prepareVolumes") return VOLUMES_STEP;
  if (action.kind === "runSandbox") return SANDBOX_STEP;
  return action.kind === "startContainer" ? containerStep(action.container) : undefined;
}

const CREATING = "ContainerCreating";
/** What an event says of a step that failed. Source: Kubernetes kubelet, events. */
const EVENTS: Readonly<Record<string, string>> = {
  [VOLUMES_STEP]: "FailedMount",
  [SANDBOX_STEP]: "FailedCreatePodSandBox",
};

function shownOf(action: TakenAction, error: AppError): Reason {
  const message = messageOf(error);
  if (action.kind !== "startContainer") return { reason: CREATING, message };
  const isRefused = isAppError(error, "RUNTIME_CONTAINER_REFUSED");
  return { reason: isRefused ? "CreateContainerConfigError" : "CreateContainerError", message };
}

/** What became of a plan. */
export interface PlanResult {
  /** Whether something was changed. */
  readonly hasActed: boolean;
  /** When to look again at the latest, milliseconds; undefined: when something changes. */
  readonly waitMs: number | undefined;
}

/** Volumes and sandbox are what all that follows needs. */
function isNeededByAll({ kind }: TakenAction): boolean {
  return kind === "prepareVolumes" || kind === "runSandbox";
}

/** A step is worth waiting for, but neither the runtime as a whole nor a fault of ours. */
function mayWait(error: unknown): error is AppError {
  return isAppError(error) && !isAppError(error, "CRI_UNAVAILABLE");
}

type Failed = FailedStep<TakenAction, Reason>;

/** Log and event of a step that failed. */
function tell(deps: PodDeps, { uid, pod }: PodFacts, failed: Failed): void {
  const { action, shown, pauseMs, error } = failed;
  const step = stepNameOf(action) ?? action.kind;
  const { message } = shown;
  const reason = EVENTS[step] ?? shown.reason;
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
  if (action.kind !== "prepareVolumes") deps.sweeper.afterCut();
}

function rulesOf(deps: PodDeps, facts: PodFacts): StepRules<TakenAction, Reason> {
  const circumstances = circumstancesOf(facts.pod);
  return {
    pauses: deps.pauses,
    stepOf: (action) => {
      const name = stepNameOf(action);
      return name === undefined ? undefined : { scope: facts.uid, name, circumstances };
    },
    explain: (action, error) => {
      if (!mayWait(error)) throw error;
      return { code: error.code, shown: shownOf(action, error) };
    },
    wait: (_, failed) => (failed.some(({ action }) => isNeededByAll(action)) ? "skip" : undefined),
    tell: (failed) => {
      tell(deps, facts, failed);
    },
  };
}

/**
 * Carries out the plan.
 * @throws what a step threw that cannot be left alone: while the runtime is away, or while something is to be removed
 */
export async function act(
  plan: readonly PodAction[],
  facts: PodFacts,
  deps: PodDeps,
): Promise<PlanResult> {
  const startMs = deps.clock.monotonicMs();
  const progress: Progress = { home: undefined, volumes: undefined, early: undefined };
  if (plan.some(({ kind }) => kind === "runSandbox")) beginVolumes(deps, facts, progress);
  const taken = plan.filter((action) => action.kind !== "wait");
  const waits = plan.flatMap((action) => (action.kind === "wait" ? [action.ms] : []));
  const steps = runSteps(
    taken,
    (action) => takeStep(deps, facts, { action, progress }),
    rulesOf(deps, facts),
  );
  await steps.catch(() => undefined);
  await progress.early?.catch(() => undefined); // nothing of a pass goes on behind it
  const { done, againMs } = await steps;
  const durationMs = Math.round(deps.clock.monotonicMs() - startMs);
  const kinds = done.map(({ kind }) => kind);
  if (kinds.length > 0) deps.log.info("pod changed", { uid: facts.uid, plan: kinds, durationMs });
  return { hasActed: taken.length > 0, waitMs: earliest([...waits, againMs]) };
}
