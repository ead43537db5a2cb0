// SPDX-License-Identifier: Apache-2.0
// What the bodies of start, stop and restart say. Source: KubeVirt api/core/v1 StartOptions, StopOptions, RestartOptions.
import type { Cause, JsonObject } from "@patchbay/api";
import { membersOf } from "./body.ts";
import { toRefusal, type Parsed } from "./nic-plan.ts";

/** What is asked for beside the change itself. */
export interface RunStateOptions {
  /** The guest starts and waits to be resumed. */
  readonly paused?: boolean;
  /** Seconds for the guest to shut down, 0 or more; absent: what its specification says. */
  readonly graceSeconds?: number;
}

function wrong(field: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message };
}

function refused(...causes: readonly Cause[]): Parsed<never> {
  return { ok: false, refusal: toRefusal(400, causes) };
}

/** No body, or `{}`, asks for nothing more. */
function parseWith(
  body: unknown,
  read: (options: JsonObject) => Parsed<RunStateOptions>,
): Parsed<RunStateOptions> {
  const members = membersOf(body);
  return members.ok ? read(members.value) : members;
}

function secondsIn(
  body: JsonObject,
  field: string,
  problemOf: (seconds: number) => string | undefined,
): Parsed<RunStateOptions> {
  const value = body[field];
  if (value === undefined || value === null) return { ok: true, value: {} };
  if (typeof value !== "number" || !Number.isSafeInteger(value)) {
    return refused(wrong(field, `${field} must be an integer`));
  }
  const problem = problemOf(value);
  return problem === undefined
    ? { ok: true, value: { graceSeconds: value } }
    : refused(wrong(field, problem));
}

/** `paused` of a start. */
export function parseStartBody(body: unknown): Parsed<RunStateOptions> {
  return parseWith(body, ({ paused }) => {
    if (paused === undefined || paused === null) return { ok: true, value: {} };
    return typeof paused === "boolean"
      ? { ok: true, value: { paused } }
      : refused(wrong("paused", "paused must be true or false"));
  });
}

/** `gracePeriod` of a stop, in seconds. */
export function parseStopBody(body: unknown): Parsed<RunStateOptions> {
  return parseWith(body, (options) =>
    secondsIn(options, "gracePeriod", (seconds) =>
      seconds < 0 ? "gracePeriod has to be greater or equal to 0" : undefined,
    ),
  );
}

/** `gracePeriodSeconds` of a restart, of which KubeVirt takes 0 alone. */
export function parseRestartBody(body: unknown): Parsed<RunStateOptions> {
  return parseWith(body, (options) =>
    secondsIn(options, "gracePeriodSeconds", (seconds) => {
      if (seconds < 0) return "gracePeriod has to be greater or equal to 0";
      return seconds > 0 ? "For force restart, only gracePeriod=0 is supported for now" : undefined;
    }),
  );
}
