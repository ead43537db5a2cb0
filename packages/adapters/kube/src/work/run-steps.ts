// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a plan in order, with backoff of failed steps. Only dependent steps wait for a failed step.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isAppError, minRetryDelayMs, type ErrorCode, type Logger } from "@patchbay/base";
import { describeError, type StepFailure, type StepKind } from "@patchbay/core/status";
import { keyOf, printKey } from "../objects/object-metadata.ts";
import type { StepBackoff, Step } from "../pace/step-backoff.ts";

export interface FailedStep<A, T> {
  readonly action: A;
  readonly summary: T;
  /** Milliseconds until the next attempt. Undefined if the step is attempted again only after its inputs change. */
  readonly pauseMs: number | undefined;
  /** Error of the attempt. Unset if the step was not attempted. */
  readonly error?: unknown;
}

export interface Explanation<T> {
  /** Code of the failure, by which the backoff recognizes a repeated failure. */
  readonly code: string;
  readonly summary: T;
}

/**
 * Reason not to attempt an action. `skip` means that the action waits for a failed step that was already reported. For any other reason,
 * the action is added to the failed steps.
 */
export type WaitReason<A, T> = "skip" | Omit<FailedStep<A, T>, "action" | "error">;

export interface StepRules<A, T> {
  readonly backoff: StepBackoff<T>;
  /** Returns the step whose failures the backoff counts. If it returns undefined, a failure of the action ends the plan. */
  readonly toStep: (action: A) => Step | undefined;
  /** Explains an error. Returns undefined for an error that is not related to the step. `runSteps` returns such errors as `thrown`. */
  readonly explain: (action: A, error: unknown) => Explanation<T> | undefined;
  /** Returns why the action must wait for failed steps. Returns undefined if the action need not wait. */
  readonly findWaitReason?: (
    action: A,
    failed: readonly FailedStep<A, T>[],
  ) => WaitReason<A, T> | undefined;
  readonly report?: (failed: FailedStep<A, T>) => void;
}

export interface StepsResult<A, T> {
  readonly done: readonly A[];
  /** Failed steps, and steps that wait for a retry or for other steps. */
  readonly failed: readonly FailedStep<A, T>[];
  /** Milliseconds until the first retry. Undefined if no step waits for a retry. */
  readonly retryInMs: number | undefined;
  /** Errors that are not related to the steps. The caller must throw these errors after it has reported the failed steps. */
  readonly thrown: readonly unknown[];
}

export function findFirstError(error: unknown): unknown {
  return error instanceof AggregateError ? error.errors[0] : error;
}

class Run<A, T> {
  readonly done: A[] = [];
  readonly failed: FailedStep<A, T>[] = [];
  readonly thrown: unknown[] = [];
  readonly #perform: (action: A) => Promise<void>;
  readonly #rules: StepRules<A, T>;

  constructor(perform: (action: A) => Promise<void>, rules: StepRules<A, T>) {
    this.#perform = perform;
    this.#rules = rules;
  }

  async perform(action: A): Promise<void> {
    const waitReason =
      this.#rules.findWaitReason?.(action, this.failed) ?? this.#findWaiting(action);
    if (waitReason === "skip") return;
    if (waitReason === undefined) await this.#try(action);
    else this.failed.push({ action, ...waitReason });
  }

  #findWaiting(action: A): WaitReason<A, T> | undefined {
    const step = this.#rules.toStep(action);
    const delay = step && this.#rules.backoff.findDelay(step);
    return delay && { summary: delay.summary, pauseMs: delay.pauseMs };
  }

  async #try(action: A): Promise<void> {
    const { backoff, toStep } = this.#rules;
    const step = toStep(action);
    try {
      await this.#perform(action);
    } catch (error) {
      if (step === undefined) throw error;
      this.#fail(action, step, error);
      return;
    }
    if (step !== undefined) backoff.succeed(step);
    this.done.push(action);
  }

  #fail(action: A, step: Step, error: unknown): void {
    const { backoff, explain, report } = this.#rules;
    const explanation = explain(action, error);
    if (explanation === undefined) {
      this.thrown.push(error);
      return;
    }
    const minDelayMs = minRetryDelayMs(findFirstError(error));
    const pauseMs = backoff.fail(step, { ...explanation, minDelayMs });
    const failed = { action, summary: explanation.summary, pauseMs, error };
    this.failed.push(failed);
    report?.(failed);
  }
}

/** @throws errors of actions without a step, and errors of `explain` */
export async function runSteps<A, T>(
  plan: readonly A[],
  perform: (action: A) => Promise<void>,
  rules: StepRules<A, T>,
): Promise<StepsResult<A, T>> {
  const run = new Run(perform, rules);
  for (const action of plan) await run.perform(action);
  const { done, failed, thrown } = run;
  const retryInMs = earliest(failed.map(({ pauseMs }) => pauseMs));
  return { done, failed, retryInMs, thrown };
}

export function earliest(times: readonly (number | undefined)[]): number | undefined {
  const knownTimes = times.filter((ms) => ms !== undefined);
  return knownTimes.length === 0 ? undefined : Math.min(...knownTimes);
}

type ObjectAction = { readonly kind: StepKind };

export interface ObjectSteps<A extends ObjectAction> {
  readonly object: KubeObject;
  readonly plan: readonly A[];
  /** Serialized inputs that all steps share. Each step adds its action's properties; changed inputs end the step's backoff. */
  readonly inputs: string;
  readonly perform: (action: A) => Promise<void>;
}

export interface ObjectStepsResult extends Pick<
  StepsResult<ObjectAction, StepFailure>,
  "retryInMs" | "thrown"
> {
  readonly failures: readonly StepFailure[];
}

/** Error codes of failures that are not specific to the step. After such a failure, the loop retries the whole key, not only the step. */
const TRANSIENT_CODES: readonly ErrorCode[] = [
  "KUBE_CONFLICT",
  "KUBE_NOT_FOUND",
  "KUBE_EXPIRED",
  "KUBE_UNREACHABLE",
  "KUBE_UNAUTHORIZED",
];

function explainFailure(
  { kind }: ObjectAction,
  error: unknown,
): { code: string; summary: StepFailure } | undefined {
  const firstError = findFirstError(error);
  if (!isAppError(firstError) || TRANSIENT_CODES.includes(firstError.code)) return undefined;
  const { code } = firstError;
  return { code, summary: { step: kind, code, message: describeError(error) } };
}

/** Performs the steps of a plan for one object, except steps in backoff. A failed step does not block other steps. */
export async function runObjectSteps<A extends ObjectAction>(
  { object, plan, inputs, perform }: ObjectSteps<A>,
  { log, stepBackoff }: { readonly log: Logger; readonly stepBackoff: StepBackoff<StepFailure> },
): Promise<ObjectStepsResult> {
  const scope = object.metadata.uid ?? "";
  const toStep = (action: A) => ({
    scope,
    name: action.kind,
    inputs: `${inputs} ${JSON.stringify(action)}`,
  });
  const logFailure = ({ summary }: FailedStep<A, StepFailure>): void => {
    log.warn("step failed", { object: printKey(keyOf(object)), ...summary });
  };
  stepBackoff.retain(
    scope,
    plan.map(({ kind }) => kind),
  );
  const result = await runSteps(plan, perform, {
    backoff: stepBackoff,
    toStep,
    explain: explainFailure,
    report: logFailure,
  });
  const { failed, retryInMs, thrown } = result;
  return { failures: failed.map(({ summary }) => summary), retryInMs, thrown };
}

export function rethrowFirst({ thrown }: ObjectStepsResult): void {
  if (thrown.length > 0) throw thrown[0];
}
