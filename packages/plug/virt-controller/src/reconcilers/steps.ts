// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a plan for an object: one that fails keeps no other from being done.
import type { KubeObject } from "@patchbay/api";
import {
  isAppError,
  sayError,
  type ErrorCode,
  type StepFailure,
  type StepKind,
} from "@patchbay/core";
import {
  firstErrorOf,
  keyOf,
  printKey,
  runSteps,
  type FailedStep,
  type StepsResult,
} from "@patchbay/kube";
import type { Deps } from "../deps.ts";

/** An action of a plan. */
type Action = { readonly kind: StepKind };

/** A plan and how it is carried out. */
export interface Steps<A extends Action> {
  /** Whose steps they are. */
  readonly object: KubeObject;
  readonly plan: readonly A[];
  /** What the outcome rests on beside the step itself. */
  readonly circumstances: string;
  readonly perform: (action: A) => Promise<void>;
}

/** What came of them. */
export interface PerformedSteps extends Pick<
  StepsResult<Action, StepFailure>,
  "againMs" | "thrown"
> {
  /** Also of steps that are left alone still. */
  readonly failures: readonly StepFailure[];
}

/** These say nothing about the step: it is tried again soon. */
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
  const first = firstErrorOf(error);
  if (!isAppError(first) || TRANSIENT.includes(first.code)) return undefined;
  const { code } = first;
  return { code, shown: { step: kind, code, message: sayError(error) } };
}

/** Performs the plan in order, to its end, except for steps that are left alone still. */
export async function performSteps<A extends Action>(
  { object, plan, circumstances, perform }: Steps<A>,
  { log, pauses }: Deps,
): Promise<PerformedSteps> {
  const scope = object.metadata.uid ?? "";
  const stepOf = (action: A) => ({
    scope,
    name: action.kind,
    circumstances: `${circumstances} ${JSON.stringify(action)}`,
  });
  const tell = ({ shown }: FailedStep<A, StepFailure>): void => {
    log.warn("step failed", { object: printKey(keyOf(object)), ...shown });
  };
  pauses.retain(
    scope,
    plan.map(({ kind }) => kind),
  );
  const result = await runSteps(plan, perform, { pauses, stepOf, explain, tell });
  const { failed, againMs, thrown } = result;
  return { failures: failed.map(({ shown }) => shown), againMs, thrown };
}

/** @throws the first of what is to be thrown. */
export function rethrow({ thrown }: PerformedSteps): void {
  if (thrown.length > 0) throw thrown[0];
}
