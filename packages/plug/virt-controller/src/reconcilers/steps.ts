// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a plan: one that fails keeps no other from being done, is told, and is left alone for a while.
import type { KubeObject } from "@patchbay/api";
import {
  isAppError,
  leastPauseMs,
  sayError,
  type ErrorCode,
  type StepFailure,
  type StepKind,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../deps.ts";

/** A plan and how it is carried out. */
export interface Steps<A extends { readonly kind: StepKind }> {
  /** Whose steps they are. */
  readonly object: KubeObject;
  readonly plan: readonly A[];
  /** What the outcome rests on beside the step itself. */
  readonly circumstances: string;
  readonly perform: (action: A) => Promise<void>;
}

/** What came of them. */
export interface Outcome {
  /** Also of steps that are left alone still. */
  readonly failures: readonly StepFailure[];
  /** After how long a step may be tried again, milliseconds. */
  readonly againMs: number | undefined;
  /** What is nobody's to mend: a lost race, a server that is away, a fault of ours. To be thrown after the report. */
  readonly thrown: readonly unknown[];
}

/** These say nothing about the step: it is tried again soon. */
const PASSING: readonly ErrorCode[] = [
  "KUBE_CONFLICT",
  "KUBE_NOT_FOUND",
  "KUBE_EXPIRED",
  "KUBE_UNREACHABLE",
  "KUBE_UNAUTHORIZED",
];

/** Of several failures of one step the first tells what they are. */
function firstOf(error: unknown): unknown {
  return error instanceof AggregateError ? error.errors[0] : error;
}

/** The code by which a step's failures are told apart; undefined: it is not told. */
function codeOf(error: unknown): ErrorCode | undefined {
  const first = firstOf(error);
  return isAppError(first) && !PASSING.includes(first.code) ? first.code : undefined;
}

class Performing<A extends { readonly kind: StepKind }> {
  readonly failures: StepFailure[] = [];
  readonly thrown: unknown[] = [];
  readonly #steps: Steps<A>;
  readonly #deps: Deps;
  #againMs: number | undefined;

  constructor(steps: Steps<A>, deps: Deps) {
    this.#steps = steps;
    this.#deps = deps;
  }

  get againMs(): number | undefined {
    return this.#againMs;
  }

  async step(action: A): Promise<void> {
    const { log, pauses } = this.#deps;
    const { object, circumstances } = this.#steps;
    const step = {
      scope: object.metadata.uid ?? "",
      name: action.kind,
      circumstances: `${circumstances} ${JSON.stringify(action)}`,
    };
    const held = pauses.findHeld(step);
    if (held !== undefined) {
      this.#tell(held.shown, held.pauseMs);
      return;
    }
    try {
      await this.#steps.perform(action);
      pauses.succeed(step);
    } catch (error) {
      const code = codeOf(error);
      if (code === undefined) this.thrown.push(error);
      else {
        const message = sayError(error);
        const shown = { step: action.kind, code, message };
        const atLeastMs = leastPauseMs(firstOf(error));
        this.#tell(shown, pauses.fail(step, { code, shown, atLeastMs }));
        log.warn("step failed", {
          object: printKey(keyOf(object)),
          step: action.kind,
          code,
          message,
        });
      }
    }
  }

  #tell(failure: StepFailure, pauseMs: number): void {
    this.failures.push(failure);
    this.#againMs = Math.min(pauseMs, this.#againMs ?? pauseMs);
  }
}

/** Performs the plan in order, to its end, except for steps that are left alone still. */
export async function performSteps<A extends { readonly kind: StepKind }>(
  steps: Steps<A>,
  deps: Deps,
): Promise<Outcome> {
  const performing = new Performing(steps, deps);
  const kinds = steps.plan.map(({ kind }) => kind);
  deps.pauses.retain(steps.object.metadata.uid ?? "", kinds);
  for (const action of steps.plan) await performing.step(action);
  const { failures, againMs, thrown } = performing;
  return { failures, againMs, thrown };
}

/** @throws the first of what is to be thrown. */
export function rethrow({ thrown }: Outcome): void {
  if (thrown.length > 0) throw thrown[0];
}

/** The earlier of two times to look again; undefined: none. */
export function earlier(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}
