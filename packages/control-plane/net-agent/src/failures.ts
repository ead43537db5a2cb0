// SPDX-License-Identifier: Apache-2.0
import type { AttachmentError } from "@patchbay/api/annotations";
import { isAppError, type Clock } from "@patchbay/base";
import { reasonOf, messageWithAdvice } from "@patchbay/core/reasons";
import {
  createStepBackoff,
  type Explanation,
  type DelayedStep,
  type StepBackoff,
  type Step,
} from "@patchbay/kube";

/** Failed steps of pods. The scope of a step is the uid of its pod. */
export interface Failures extends StepBackoff<AttachmentError> {
  /** Returns the report of a failed step. If a step repeatedly fails in the same way, returns the report of the first failure. */
  explain(step: Step, error: unknown, network?: string): Explanation<AttachmentError>;
  /** Returns the last report of a failed step, even if the step's backoff has ended. */
  lastReport(step: Step): AttachmentError | undefined;
  /** Stores a report. Returns false if the same report was stored recently. */
  recordIfNew(step: Step, finding: AttachmentError): boolean;
}

/** Time for which a report is reused for repeated failures, in milliseconds. */
const REPORT_MAX_AGE_MS = 600_000;

function toAttachmentError(error: unknown, network?: string): AttachmentError {
  return { reason: reasonOf(error) ?? "CniFailed", message: messageWithAdvice(error, { network }) };
}

/** Describes the error by its code, plugin, command and CNI code. Omits the message, because it may differ between attempts. */
function describeErrorKind(error: unknown): string {
  if (!isAppError(error)) return error instanceof Error ? error.name : typeof error;
  const { plugin, command, cniCode } = error.details;
  return [error.code, plugin, command, cniCode].map(String).join(" ");
}

interface Report {
  /** Describes the kind of failure and the inputs of the step. The report is reused while this description stays the same. */
  readonly key: string;
  readonly error: AttachmentError;
  readonly sinceMs: number;
}

class StepFailures implements Failures {
  readonly #clock: Clock;
  readonly #backoff;
  /** Last report of each failed step. The outer key is the step's scope, the inner key its name. */
  readonly #reports = new Map<string, Map<string, Report>>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#backoff = createStepBackoff<AttachmentError>({ clock });
  }

  findDelay(step: Step): DelayedStep<AttachmentError> | undefined {
    return this.#backoff.findDelay(step);
  }

  lastReport({ scope, name }: Step): AttachmentError | undefined {
    return this.#reports.get(scope)?.get(name)?.error;
  }

  explain(step: Step, thrown: unknown, network?: string): Explanation<AttachmentError> {
    const code = describeErrorKind(thrown);
    return {
      code,
      summary: this.#storeReport(step, code, toAttachmentError(thrown, network)).error,
    };
  }

  fail(...args: Parameters<StepBackoff<AttachmentError>["fail"]>): number {
    return this.#backoff.fail(...args);
  }

  succeed({ scope, name }: Pick<Step, "scope" | "name">): void {
    this.#backoff.succeed({ scope, name });
    this.#reports.get(scope)?.delete(name);
  }

  recordIfNew(step: Step, finding: AttachmentError): boolean {
    return (
      this.#storeReport(step, `${finding.reason} ${finding.message}`, finding).error === finding
    );
  }

  retain(scope: string, names: readonly string[]): void {
    this.#backoff.retain(scope, names);
    const report = this.#reports.get(scope);
    for (const name of [...(report?.keys() ?? [])]) if (!names.includes(name)) report?.delete(name);
    if (report?.size === 0) this.#reports.delete(scope);
  }

  forget(scope: string): void {
    this.#backoff.forget(scope);
    this.#reports.delete(scope);
  }

  /** Returns the previous report if it has the same key and is recent. Otherwise stores the new report. */
  #storeReport({ scope, name, inputs }: Step, kind: string, error: AttachmentError): Report {
    const steps = this.#reports.get(scope) ?? new Map<string, Report>();
    this.#reports.set(scope, steps);
    const nowMs = this.#clock.monotonicMs();
    const key = JSON.stringify([kind, inputs]);
    const previous = steps.get(name);
    if (previous?.key === key && nowMs - previous.sinceMs < REPORT_MAX_AGE_MS) return previous;
    const report = { key, error, sinceMs: nowMs };
    steps.set(name, report);
    return report;
  }
}

/** Creates an empty store. Failures are not persisted, so a restarted agent retries all steps immediately. */
export function createFailures(clock: Clock): Failures {
  return new StepFailures(clock);
}
