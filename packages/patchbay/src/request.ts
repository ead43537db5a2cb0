// SPDX-License-Identifier: Apache-2.0
// How is a subresource called, and its effect waited for and printed? The same for every command that changes a VM.
import type { VirtualMachineInstance } from "@patchbay/api";
import { hasFlag, numberOption, type Context, type Input } from "./context.ts";
import { printResult } from "./print/output.ts";
import { printStep } from "./print/step.ts";
import type { Session } from "./session.ts";
import { printTarget, subresourcePath, type Target } from "./target.ts";
import { VmiFollower } from "./wait/follow-vmi.ts";
import { StepRecorder, type Stage, type Step } from "./wait/steps.ts";

/** What is asked of a VM or VMI. */
export interface Change {
  readonly target: Target;
  readonly subresource: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** What is asked for, for example `interface blue: plug`. */
  readonly what: string;
  /** Fields of the result for programs. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly stageOf: (vmi: VirtualMachineInstance | undefined) => Stage;
  /** Whether it is done; `first` is the VMI before the request. */
  readonly isDone: (
    vmi: VirtualMachineInstance | undefined,
    first: VirtualMachineInstance | undefined,
  ) => boolean;
  /** Why there is nothing to wait for, in words. */
  readonly waitsForNothing?: string;
}

interface Outcome {
  readonly result: "requested" | "done";
  readonly steps: readonly Step[];
  readonly elapsedMs?: number;
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

async function sendAndWait(
  session: Session,
  context: Context,
  waiting: { readonly change: Change; readonly timeoutMs: number },
): Promise<Outcome> {
  const { change, timeoutMs } = waiting;
  const follower = new VmiFollower(session, change.target);
  try {
    const { vmi: first } = await follower.first(context.signal);
    const startMs = session.clock.monotonicMs();
    const recorder = new StepRecorder(change.stageOf, first, (step) => {
      if (context.global.output === "table") context.out.write(printStep(step));
    });
    await send(session, context, change);
    await follower.until(
      {
        what: `${printTarget(change.target)}: ${change.what}`,
        timeoutMs,
        state: () => recorder.state,
        visit: (sight) => {
          recorder.record(sight);
          return change.isDone(sight.vmi, first);
        },
      },
      context.signal,
    );
    const elapsedMs = Math.round(session.clock.monotonicMs() - startMs);
    return { result: "done", steps: recorder.steps, elapsedMs };
  } finally {
    follower.close();
  }
}

function sentence(change: Change, outcome: Outcome): string {
  const seconds = outcome.elapsedMs === undefined ? "" : ` after ${toSeconds(outcome.elapsedMs)} s`;
  const note = change.waitsForNothing === undefined ? "" : `; ${change.waitsForNothing}`;
  const subject = `${printTarget(change.target)}: ${change.what}`;
  return outcome.result === "done" ? `${subject} done${seconds}` : `${subject} requested${note}`;
}

function toSeconds(ms: number): string {
  return (ms / 1000).toFixed(3);
}

/** Asks for the change, waits for it when the user wants that, and prints what came of it. */
export async function requestChange(
  session: Session,
  context: Context,
  asked: { readonly change: Change; readonly input: Input },
): Promise<void> {
  const { change, input } = asked;
  const timeoutMs = numberOption(input, "timeout", 120_000);
  const isWaiting = hasFlag(input, "wait") && change.waitsForNothing === undefined;
  let outcome: Outcome = { result: "requested", steps: [] };
  if (isWaiting) outcome = await sendAndWait(session, context, { change, timeoutMs });
  else await send(session, context, change);
  const { kind, namespace, name } = change.target;
  await printResult(context, {
    table: () => `${sentence(change, outcome)}\n`,
    data: { kind, namespace, name, action: change.subresource, ...change.fields, ...outcome },
    names: [`${kind}/${name}`],
  });
}
