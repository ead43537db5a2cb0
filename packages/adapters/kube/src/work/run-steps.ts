// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a plan in order, with backoff of failed steps. A failure blocks only the steps that depend on
// it.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isAppError, minRetryDelayMs, type ErrorCode, type Logger } from "@patchbay/base";
import { describeError, type StepFailure, type StepKind } from "@patchbay/core/status";
import { keyOf, printKey } from "../objects/object-metadata.ts";
import type { StepBackoff, Step } from "../pace/step-backoff.ts";

export interface FailedStep<A, T> {
  readonly action: A;
  readonly summary: T;
  /** Time until the next attempt, in milliseconds; undefined if the step is retried only when its inputs change. */
  readonly pauseMs: number | undefined;
  /** Unset if the step was not tried. */
  readonly error?: unknown;
}

export interface Explanation<T> {
  /** Code that identifies the failure, because messages may differ each time. */
  readonly code: string;
  readonly summary: T;
}

/** Why an action is not tried; `skip` if it depends on a failed step that is already reported. */
export type Waiting<A, T> = "skip" | Omit<FailedStep<A, T>, "action" | "error">;

export interface StepRules<A, T> {
  readonly backoff: StepBackoff<T>;
  /** Returns the step whose backoff applies; undefined for an action without one, whose failure ends the plan. */
  readonly toStep: (action: A) => Step | undefined;
  /** Explains an error; undefined if it is unrelated to the step and thrown at the end. Its own errors end the plan. */
  readonly explain: (action: A, error: unknown) => Explanation<T> | undefined;
  /** Returns why the action must wait for failed steps; undefined if it need not. By default actions never wait. */
  readonly findWaitReason?: (
    action: A,
    failed: readonly FailedStep<A, T>[],
  ) => Waiting<A, T> | undefined;
  /** Called at each failure, for logs and events. */
  readonly report?: (failed: FailedStep<A, T>) => void;
}

export interface StepsResult<A, T> {
  readonly done: readonly A[];
  /** Failed steps, and steps that wait for a retry or for other steps. */
  readonly failed: readonly FailedStep<A, T>[];
  /** Time until the first retry, in milliseconds; undefined if none is due. */
  readonly retryInMs: number | undefined;
  /** Errors unrelated to the steps, which the caller throws after its report. */
  readonly thrown: readonly unknown[];
}

/** Returns the first of several errors, which determines the failure. */
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
    const waiting = this.#rules.findWaitReason?.(action, this.failed) ?? this.#findWaiting(action);
    if (waiting === "skip") return;
    if (waiting === undefined) await this.#try(action);
    else this.failed.push({ action, ...waiting });
  }

  #findWaiting(action: A): Waiting<A, T> | undefined {
    const step = this.#rules.toStep(action);
    const held = step && this.#rules.backoff.findHeld(step);
    return held && { summary: held.summary, pauseMs: held.pauseMs };
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
    const explained = explain(action, error);
    if (explained === undefined) {
      this.thrown.push(error);
      return;
    }
    const minDelayMs = minRetryDelayMs(findFirstError(error));
    const pauseMs = backoff.fail(step, { ...explained, minDelayMs });
    const failed = { action, summary: explained.summary, pauseMs, error };
    this.failed.push(failed);
    report?.(failed);
  }
}

/** Performs a plan. @throws errors of actions without a step, and errors of `explain`, at once */
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
  const known = times.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

type ObjectAction = { readonly kind: StepKind };

export interface ObjectSteps<A extends ObjectAction> {
  readonly object: KubeObject;
  readonly plan: readonly A[];
  /** Inputs of the steps, apart from the steps themselves. */
  readonly inputs: string;
  readonly perform: (action: A) => Promise<void>;
}

export interface ObjectStepsResult extends Pick<
  StepsResult<ObjectAction, StepFailure>,
  "retryInMs" | "thrown"
> {
  readonly failures: readonly StepFailure[];
}

/** Codes of errors unrelated to the step, which is retried soon. */
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
  const first = findFirstError(error);
  if (!isAppError(first) || TRANSIENT_CODES.includes(first.code)) return undefined;
  const { code } = first;
  return { code, summary: { step: kind, code, message: describeError(error) } };
}

/** Runs the steps of a plan for one object, except those that back off. A failed step does not block the others. */
export async function runObjectSteps<A extends ObjectAction>(
  { object, plan, inputs, perform }: ObjectSteps<A>,
  { log, stepBackoff }: { readonly log: Logger; readonly stepBackoff: StepBackoff<StepFailure> },
): Promise<ObjectStepsResult> {
  const scope = object.metadata.uid ?? "";
  const stepOf = (action: A) => ({
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
    toStep: stepOf,
    explain: explainFailure,
    report: logFailure,
  });
  const { failed, retryInMs, thrown } = result;
  return { failures: failed.map(({ summary }) => summary), retryInMs, thrown };
}

/** Throws the first collected error, if any. */
export function rethrowFirst({ thrown }: ObjectStepsResult): void {
  if (thrown.length > 0) throw thrown[0];
}
