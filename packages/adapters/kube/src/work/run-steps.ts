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
  readonly shown: T;
  /** Milliseconds until the next attempt; undefined if only a change helps. */
  readonly pauseMs: number | undefined;
  /** Unset if the step was not tried. */
  readonly error?: unknown;
}

export interface Explanation<T> {
  /** Identifies the failure; messages may differ each time. */
  readonly code: string;
  readonly shown: T;
}

/** Why an action is not tried. `skip`: it depends on a failed step that is reported already. */
export type Waiting<A, T> = "skip" | Omit<FailedStep<A, T>, "action" | "error">;

export interface StepRules<A, T> {
  readonly backoff: StepBackoff<T>;
  /** The step whose backoff applies; undefined if the action has none, so that its failure ends the plan. */
  readonly toStep: (action: A) => Step | undefined;
  /** Undefined for errors unrelated to the step, which are thrown at the end. Errors of this function end the plan. */
  readonly explain: (action: A, error: unknown) => Explanation<T> | undefined;
  /** Whether the action must wait because of failures in this run. Default: actions are independent. */
  readonly wait?: (action: A, failed: readonly FailedStep<A, T>[]) => Waiting<A, T> | undefined;
  /** Called at each failure, for logs and events. */
  readonly report?: (failed: FailedStep<A, T>) => void;
}

export interface StepsResult<A, T> {
  readonly done: readonly A[];
  /** Includes steps that wait for a retry or for other steps. */
  readonly failed: readonly FailedStep<A, T>[];
  /** Milliseconds until the first retry; undefined if none is due. */
  readonly retryInMs: number | undefined;
  /** Errors unrelated to the steps, to throw after the report. */
  readonly thrown: readonly unknown[];
}

/** The first of several errors determines the failure. */
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
    const waiting = this.#rules.wait?.(action, this.failed) ?? this.#findWaiting(action);
    if (waiting === "skip") return;
    if (waiting === undefined) await this.#try(action);
    else this.failed.push({ action, ...waiting });
  }

  #findWaiting(action: A): Waiting<A, T> | undefined {
    const step = this.#rules.toStep(action);
    const held = step && this.#rules.backoff.findHeld(step);
    return held && { shown: held.shown, pauseMs: held.pauseMs };
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
    const atLeastMs = minRetryDelayMs(findFirstError(error));
    const pauseMs = backoff.fail(step, { ...explained, atLeastMs });
    const failed = { action, shown: explained.shown, pauseMs, error };
    this.failed.push(failed);
    report?.(failed);
  }
}

/** @throws errors of actions without a step, and errors of `explain`, at once */
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

/** Undefined if all times are. */
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
  /** Includes steps that back off. */
  readonly failures: readonly StepFailure[];
}

/** Errors that say nothing about the step, so that it is retried soon. */
const TRANSIENT: readonly ErrorCode[] = [
  "KUBE_CONFLICT",
  "KUBE_NOT_FOUND",
  "KUBE_EXPIRED",
  "KUBE_UNREACHABLE",
  "KUBE_UNAUTHORIZED",
];

function explainFailure(
  { kind }: ObjectAction,
  error: unknown,
): { code: string; shown: StepFailure } | undefined {
  const first = findFirstError(error);
  if (!isAppError(first) || TRANSIENT.includes(first.code)) return undefined;
  const { code } = first;
  return { code, shown: { step: kind, code, message: describeError(error) } };
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
  const logFailure = ({ shown }: FailedStep<A, StepFailure>): void => {
    log.warn("step failed", { object: printKey(keyOf(object)), ...shown });
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
  return { failures: failed.map(({ shown }) => shown), retryInMs, thrown };
}

/** @throws the first collected error */
export function rethrowFirst({ thrown }: ObjectStepsResult): void {
  if (thrown.length > 0) throw thrown[0];
}
