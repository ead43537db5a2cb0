// SPDX-License-Identifier: Apache-2.0
// Executes the steps of a plan for one object. A failed step does not block the others.
import type { KubeObject } from "@patchbay/api";
import { isAppError, type ErrorCode } from "@patchbay/base";
import { describeError, type StepFailure, type StepKind } from "@patchbay/core/status";
import {
  findFirstError,
  keyOf,
  printKey,
  runSteps,
  type FailedStep,
  type StepsResult,
} from "@patchbay/kube";
import type { Deps } from "../deps.ts";

type Action = { readonly kind: StepKind };

export interface Steps<A extends Action> {
  readonly object: KubeObject;
  readonly plan: readonly A[];
  /** Inputs of the steps, apart from the steps themselves. */
  readonly inputs: string;
  readonly perform: (action: A) => Promise<void>;
}

export interface PerformedSteps extends Pick<
  StepsResult<Action, StepFailure>,
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

function explain(
  { kind }: Action,
  error: unknown,
): { code: string; shown: StepFailure } | undefined {
  const first = findFirstError(error);
  if (!isAppError(first) || TRANSIENT.includes(first.code)) return undefined;
  const { code } = first;
  return { code, shown: { step: kind, code, message: describeError(error) } };
}

/** Executes the plan in order, except for steps that back off. */
export async function performSteps<A extends Action>(
  { object, plan, inputs, perform }: Steps<A>,
  { log, stepBackoff }: Deps,
): Promise<PerformedSteps> {
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
    explain,
    report: logFailure,
  });
  const { failed, retryInMs, thrown } = result;
  return { failures: failed.map(({ shown }) => shown), retryInMs, thrown };
}

/** @throws the first collected error */
export function rethrow({ thrown }: PerformedSteps): void {
  if (thrown.length > 0) throw thrown[0];
}
