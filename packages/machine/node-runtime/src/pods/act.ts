// SPDX-License-Identifier: Apache-2.0
// Carries out the plan of one pod. A step that fails is left alone for a while; what does not need it goes on.
import { isAppError, messageOf, type AppError } from "@patchbay/core";
import type { PodDeps } from "./deps.ts";
import { containerStep, SANDBOX_STEP, VOLUMES_STEP, type PodFacts, type Reason } from "./facts.ts";
import { circumstancesOf } from "./observe.ts";
import type { PodAction } from "./plan.ts";
import { beginVolumes, takeStep, type Progress } from "./steps.ts";

/** The step's name, when its failure holds up this pod only for a while. */
function stepOf(action: PodAction): string | undefined {
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

function shownOf(action: PodAction, error: AppError): Reason {
  const message = messageOf(error);
  if (action.kind !== "startContainer") return { reason: CREATING, message };
  const isRefused = isAppError(error, "RUNTIME_CONTAINER_REFUSED");
  return { reason: isRefused ? "CreateContainerConfigError" : "CreateContainerError", message };
}

/** Notes that a step failed; how long it is left alone, milliseconds. */
function fail(
  deps: PodDeps,
  facts: PodFacts,
  at: { action: PodAction; step: string; error: AppError },
): number {
  const { action, step, error } = at;
  const shown = shownOf(action, error);
  const { code } = error;
  const circumstances = circumstancesOf(facts.pod);
  const pauseMs = deps.pauses.fail(
    { scope: facts.uid, name: step, circumstances },
    { code, shown },
  );
  const reason = EVENTS[step] ?? shown.reason;
  if (facts.pod !== undefined) {
    deps.recorder.record(facts.pod, {
      type: "Warning",
      reason,
      message: shown.message,
      about: step,
    });
  }
  deps.log.warn("step of a pod failed", {
    uid: facts.uid,
    action: action.kind,
    code,
    reason: shown.message,
    waitMs: pauseMs,
  });
  return pauseMs;
}

/** What became of a plan. */
export interface Outcome {
  /** Whether something was changed. */
  readonly hasActed: boolean;
  /** When to look again at the latest, milliseconds; undefined: when something changes. */
  readonly waitMs: number | undefined;
}

/** Volumes and sandbox are what all that follows needs. */
function endsPlan(step: string): boolean {
  return step === VOLUMES_STEP || step === SANDBOX_STEP;
}

/** A step is worth waiting for, but neither the runtime as a whole nor a fault of ours. */
function mayWait(error: unknown): error is AppError {
  return isAppError(error) && !isAppError(error, "CRI_UNAVAILABLE");
}

/** What was done, and how long steps that failed are left alone. */
interface Deeds {
  readonly kinds: string[];
  readonly waits: number[];
}

async function carryOut(
  plan: readonly PodAction[],
  facts: PodFacts,
  at: { readonly deps: PodDeps; readonly progress: Progress },
): Promise<Deeds> {
  const { deps, progress } = at;
  const kinds: string[] = [];
  const waits = plan.flatMap((action) => (action.kind === "wait" ? [action.ms] : []));
  for (const action of plan) {
    const step = stepOf(action);
    try {
      await takeStep(deps, facts, { action, progress });
      if (step !== undefined) deps.pauses.succeed({ scope: facts.uid, name: step });
      if (action.kind !== "wait") kinds.push(action.kind);
    } catch (error) {
      if (step === undefined || !mayWait(error)) throw error;
      waits.push(fail(deps, facts, { action, step, error }));
      if (action.kind !== "prepareVolumes") deps.sweeper.afterCut();
      if (endsPlan(step)) break;
    }
  }
  return { kinds, waits };
}

/**
 * Carries out the plan.
 * @throws what a step threw that cannot be left alone: while the runtime is away, or while something is to be removed
 */
export async function act(
  plan: readonly PodAction[],
  facts: PodFacts,
  deps: PodDeps,
): Promise<Outcome> {
  const startMs = deps.clock.monotonicMs();
  const progress: Progress = { home: undefined, volumes: undefined, early: undefined };
  if (plan.some(({ kind }) => kind === "runSandbox")) beginVolumes(deps, facts, progress);
  const { kinds, waits } = await carryOut(plan, facts, { deps, progress }).finally(
    () => progress.early?.catch(() => undefined), // nothing of a pass goes on behind it
  );
  const durationMs = Math.round(deps.clock.monotonicMs() - startMs);
  if (kinds.length > 0) deps.log.info("pod changed", { uid: facts.uid, plan: kinds, durationMs });
  const hasActed = plan.some(({ kind }) => kind !== "wait");
  return { hasActed, waitMs: waits.length === 0 ? undefined : Math.min(...waits) };
}
