// SPDX-License-Identifier: Apache-2.0
// Requests a change of a VM, waits for the effect and prints the result. Shared by all commands that change a VM.
import { printStage, type Step, StepRecorder, type StageOf } from "./steps.ts";
import { oneLine } from "../print/safe.ts";
import type { JsonPatchOperation } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/base";
import type { RawRequest, RawResponse } from "@patchbay/kube";
import type { Context } from "../command.ts";
import { hasFlag, numberOption, type Input } from "../input.ts";
import { printResult } from "../print/output.ts";
import type { Session } from "../session.ts";
import { objectPath, printTarget, subresourcePath, type Target } from "../target.ts";
import { TargetFollower, type Observation } from "./follow-target.ts";
import type { Verdict } from "./verdict.ts";

const TIME_WIDTH = 9;

/** One line: seconds since the request, phase, and why it is blocked. */
function printStep(step: Step): string {
  const seconds = (step.elapsedMs / 1000).toFixed(3).padStart(TIME_WIDTH);
  return `${seconds} s  ${oneLine(printStage(step))}\n`;
}

type ChangeRequest =
  | {
      readonly kind: "subresource";
      readonly name: string;
      readonly body: Readonly<Record<string, unknown>>;
    }
  | { readonly kind: "patch"; readonly operations: readonly JsonPatchOperation[] };

export interface Change {
  readonly target: Target;
  /** Name of the change for programs, for example `addinterface`. */
  readonly action: string;
  readonly request: ChangeRequest;
  /** Description for people, for example `interface blue: plug`. */
  readonly what: string;
  /** Command that shows the current state. */
  readonly inspectCommand: string;
  /** Fields of the result for programs. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly findStage: StageOf;
  /** Decides whether the change is done or waiting is useless; `first` is the state before the request. */
  readonly findVerdict: (now: Observation, first: Observation) => Verdict;
  readonly hasMigrations?: boolean;
  /** Why there is nothing to wait for, as text for people. */
  readonly noWaitReason?: string;
}

export interface ChangeResult {
  /** `dryRun`: the API server would accept the request; nothing was changed. */
  readonly result: "requested" | "done" | "dryRun";
  readonly steps: readonly Step[];
  readonly elapsedMs?: number;
  /** Why the change takes effect only later, or the API server's answer to a dry run. */
  readonly note?: string;
  readonly warnings?: readonly string[];
}

/** Deadline of the request itself, which includes admission and webhooks. */
const REQUEST_TIMEOUT_MS = 30_000;

function toCall({ target, request }: Change): RawRequest {
  if (request.kind === "subresource") {
    return { method: "PUT", path: subresourcePath(target, request.name), body: request.body };
  }
  return {
    method: "PATCH",
    path: objectPath(target),
    body: request.operations,
    contentType: "application/json-patch+json",
  };
}

function send(
  session: Session,
  context: Context,
  { change, isDryRun = false }: { readonly change: Change; readonly isDryRun?: boolean },
): Promise<RawResponse> {
  return session.client.requestRaw({
    ...toCall(change),
    ...(isDryRun && { query: { dryRun: "All" } }),
    timeoutMs: REQUEST_TIMEOUT_MS,
    signal: context.signal,
  });
}

function statusMessage(text: string): string | undefined {
  const { kind, message } = JSON.parse(text) as { kind?: string; message?: string }; // the API server's answer
  return kind === "Status" ? message : undefined;
}

async function sendDryRun(
  session: Session,
  context: Context,
  change: Change,
): Promise<ChangeResult> {
  const { text, warnings } = await send(session, context, { change, isDryRun: true });
  for (const warning of warnings) context.err.write(`warning: ${oneLine(warning)}\n`);
  const note = statusMessage(text) ?? change.noWaitReason;
  return { result: "dryRun", steps: [], ...(note !== undefined && { note }), warnings };
}

function withInspectHint(error: unknown, { inspectCommand }: Change): unknown {
  if (!isAppError(error)) return error;
  const { code, details, cause } = error;
  return new AppError(code, { ...details, look: inspectCommand }, { cause });
}

interface WaitOptions {
  readonly change: Change;
  readonly timeoutMs: number;
}

function titleOf(change: Change): string {
  return `${printTarget(change.target)}: ${change.what}`;
}

async function sendAndWait(
  session: Session,
  context: Context,
  waiting: WaitOptions,
): Promise<ChangeResult> {
  const { change } = waiting;
  const follower = new TargetFollower(session, change);
  try {
    const first = await follower.first(context.signal);
    const startMs = session.clock.monotonicMs();
    const recorder = new StepRecorder(change.findStage, first, (step) => {
      if (context.global.output === "table") context.out.write(printStep(step));
    });
    await send(session, context, { change });
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

async function follow(
  follower: TargetFollower,
  waiting: WaitOptions & { readonly first: Observation; readonly recorder: StepRecorder },
  signal: AbortSignal,
): Promise<Exclude<Verdict, { kind: "waiting" }>> {
  const { change, first, recorder, timeoutMs } = waiting;
  const what = titleOf(change);
  const ended: Exclude<Verdict, { kind: "waiting" }>[] = [];
  const visit = (observation: Observation): boolean => {
    recorder.record(observation);
    const verdict = change.findVerdict(observation, first);
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

export function describeChange(change: Change, outcome: ChangeResult): string {
  const seconds = outcome.elapsedMs === undefined ? "" : ` after ${toSeconds(outcome.elapsedMs)} s`;
  const note = outcome.note === undefined ? "" : `; ${outcome.note}`;
  const subject = titleOf(change);
  switch (outcome.result) {
    case "done":
      return `${subject} done${seconds}\n`;
    case "dryRun":
      return `${subject} would be accepted; nothing was changed${note}\n`;
    case "requested":
      return `${subject} requested${note}\n`;
  }
}

function toSeconds(ms: number): string {
  return (ms / 1000).toFixed(3);
}

interface RequestedChange {
  readonly change: Change;
  readonly input: Input;
}

/** Sends the request, and waits for the effect unless there is nothing to wait for. */
export async function performChange(
  session: Session,
  context: Context,
  { change, input, isWaiting }: RequestedChange & { readonly isWaiting: boolean },
): Promise<ChangeResult> {
  const timeoutMs = numberOption(input, "timeout", 120_000);
  const { noWaitReason: note } = change;
  try {
    if (hasFlag(input, "dryRun")) return await sendDryRun(session, context, change);
    if (isWaiting && note === undefined) {
      return await sendAndWait(session, context, { change, timeoutMs });
    }
    await send(session, context, { change });
  } catch (error) {
    throw withInspectHint(error, change);
  }
  return { result: "requested", steps: [], ...(note === undefined ? {} : { note }) };
}

export async function requestChange(
  session: Session,
  context: Context,
  requested: RequestedChange,
): Promise<void> {
  const { change, input } = requested;
  const isWaiting = hasFlag(input, "wait");
  const outcome = await performChange(session, context, { ...requested, isWaiting });
  const { kind, namespace, name } = change.target;
  await printResult(context, {
    table: () => describeChange(change, outcome),
    data: { kind, namespace, name, action: change.action, ...change.fields, ...outcome },
    names: [`${kind}/${name}`],
  });
}
