// SPDX-License-Identifier: Apache-2.0
// How is a subresource called, and its effect waited for and printed? The same for every command that changes a VM.
import { AppError, isAppError } from "@patchbay/core";
import type { Context } from "../command.ts";
import { hasFlag, numberOption, type Input } from "../input.ts";
import { printResult } from "../print/output.ts";
import { printStep } from "../print/step.ts";
import type { Session } from "../session.ts";
import { printTarget, subresourcePath, type Target } from "../target.ts";
import { TargetFollower, type Observation } from "./follow-target.ts";
import { StepRecorder, type StageOf, type Step } from "./steps.ts";
import type { Verdict } from "./verdict.ts";

/** What is asked of a VM or VMI. */
export interface Change {
  readonly target: Target;
  readonly subresource: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** What is asked for, for example `interface blue: plug`. */
  readonly what: string;
  /** The command that shows how it stands. */
  readonly look: string;
  /** Fields of the result for programs. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly stageOf: StageOf;
  /** Whether it is done, or waiting is of no use; `first` is how it stood before the request. */
  readonly verdictOf: (now: Observation, first: Observation) => Verdict;
  /** Whether the VMI's migrations are looked at. */
  readonly hasMigrations?: boolean;
  /** Why there is nothing to wait for, in words. */
  readonly waitsForNothing?: string;
}

/** What came of it. */
export interface ChangeResult {
  readonly result: "requested" | "done";
  readonly steps: readonly Step[];
  readonly elapsedMs?: number;
  /** Why it comes only later. */
  readonly note?: string;
}

/** Deadline of the request itself; admission and webhooks run within it. */
const REQUEST_TIMEOUT_MS = 30_000;

async function send(session: Session, context: Context, change: Change): Promise<void> {
  await session.client.requestRaw({
    method: "PUT",
    path: subresourcePath(change.target, change.subresource),
    body: change.body,
    timeoutMs: REQUEST_TIMEOUT_MS,
    signal: context.signal,
  });
}

/** The same error, which also says where to look. */
function withLook(error: unknown, { look }: Change): unknown {
  if (!isAppError(error)) return error;
  const { code, details, cause } = error;
  return new AppError(code, { ...details, look }, { cause });
}

/** What is waited for, and for how long. */
interface Waiting {
  readonly change: Change;
  readonly timeoutMs: number;
}

function titleOf(change: Change): string {
  return `${printTarget(change.target)}: ${change.what}`;
}

async function sendAndWait(
  session: Session,
  context: Context,
  waiting: Waiting,
): Promise<ChangeResult> {
  const { change } = waiting;
  const follower = new TargetFollower(session, change);
  try {
    const first = await follower.first(context.signal);
    const startMs = session.clock.monotonicMs();
    const recorder = new StepRecorder(change.stageOf, first, (step) => {
      if (context.global.output === "table") context.out.write(printStep(step));
    });
    await send(session, context, change);
    const verdict = await follow(follower, { ...waiting, first, recorder }, context.signal);
    const elapsedMs = Math.round(session.clock.monotonicMs() - startMs);
    const { steps } = recorder;
    if (verdict.kind === "done") return { result: "done", steps, elapsedMs };
    if (verdict.kind === "later") return { result: "requested", steps, note: verdict.note };
    throw new AppError("KUBE_WAIT_FAILED", { what: titleOf(change), reason: verdict.reason });
  } finally {
    follower.close();
  }
}

/** The verdict that ended the waiting. */
async function follow(
  follower: TargetFollower,
  waiting: Waiting & { readonly first: Observation; readonly recorder: StepRecorder },
  signal: AbortSignal,
): Promise<Exclude<Verdict, { kind: "waiting" }>> {
  const { change, first, recorder, timeoutMs } = waiting;
  const what = titleOf(change);
  const ended: Exclude<Verdict, { kind: "waiting" }>[] = [];
  const visit = (observation: Observation): boolean => {
    recorder.record(observation);
    const verdict = change.verdictOf(observation, first);
    if (verdict.kind !== "waiting") ended.push(verdict);
    return verdict.kind !== "waiting";
  };
  try {
    await follower.until({ what, timeoutMs, state: () => recorder.state, visit }, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new AppError("KUBE_WAIT_INTERRUPTED", { what, state: recorder.state }, { cause: error });
  }
  const [verdict] = ended;
  if (verdict === undefined) throw new RangeError("the wait ended without a verdict");
  return verdict;
}

/** What came of a change, as a line. */
export function sayChange(change: Change, outcome: ChangeResult): string {
  const seconds = outcome.elapsedMs === undefined ? "" : ` after ${toSeconds(outcome.elapsedMs)} s`;
  const note = outcome.note === undefined ? "" : `; ${outcome.note}`;
  const subject = titleOf(change);
  return outcome.result === "done"
    ? `${subject} done${seconds}\n`
    : `${subject} requested${note}\n`;
}

function toSeconds(ms: number): string {
  return (ms / 1000).toFixed(3);
}

/** A change, and the flags of whoever asks for it. */
interface AskedChange {
  readonly change: Change;
  readonly input: Input;
}

/** Asks for the change, and waits for it where there is something to wait for. */
export async function performChange(
  session: Session,
  context: Context,
  { change, input, isWaiting }: AskedChange & { readonly isWaiting: boolean },
): Promise<ChangeResult> {
  const timeoutMs = numberOption(input, "timeout", 120_000);
  const { waitsForNothing: note } = change;
  try {
    if (isWaiting && note === undefined) {
      return await sendAndWait(session, context, { change, timeoutMs });
    }
    await send(session, context, change);
  } catch (error) {
    throw withLook(error, change);
  }
  return { result: "requested", steps: [], ...(note === undefined ? {} : { note }) };
}

/** Asks for the change, waits for it when the user wants that, and prints what came of it. */
export async function requestChange(
  session: Session,
  context: Context,
  asked: AskedChange,
): Promise<void> {
  const { change, input } = asked;
  const isWaiting = hasFlag(input, "wait");
  const outcome = await performChange(session, context, { ...asked, isWaiting });
  const { kind, namespace, name } = change.target;
  await printResult(context, {
    table: () => sayChange(change, outcome),
    data: { kind, namespace, name, action: change.subresource, ...change.fields, ...outcome },
    names: [`${kind}/${name}`],
  });
}
