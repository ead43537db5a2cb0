// SPDX-License-Identifier: Apache-2.0
// Requests a change of a VM, waits for it and prints the result.
import {
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError, isAppError } from "@patchbay/base";
import type { Reflection, RawRequest, RawResponse } from "@patchbay/kube";
import {
  type Observation,
  printStage,
  type Step,
  StepRecorder,
  type FindStage,
  type Verdict,
} from "./progress.ts";
import { type Session, type Target, objectPath, printTarget, subresourcePath } from "../session.ts";
import { escapeLine } from "../print/safe.ts";
import type { Context } from "../command.ts";
import { hasFlag, numberOption, type Input } from "../input.ts";
import { printResult } from "../print/output.ts";

interface Goal {
  /** What the command waits for, as text for the error message. */
  readonly what: string;
  /** Called with each observation. Returns true to end the wait. */
  readonly visit: (observation: Observation) => boolean;
  readonly state: () => string;
  readonly timeoutMs: number;
}

function findSingle<T extends KubeObject>(reflection: Reflection<T>): T | undefined {
  if (reflection.kind === "listed") return reflection.objects[0];
  return reflection.kind === "removed" ? undefined : reflection.object;
}

interface WatchSelection {
  readonly session: Session;
  readonly namespace: string;
  readonly fieldSelector?: string;
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  const rejectInterrupted = (): void => {
    reject(new Error("interrupted", { cause: signal.reason }));
  };
  if (signal.aborted) rejectInterrupted();
  signal.addEventListener("abort", rejectInterrupted, { once: true });
  return promise;
}

interface FollowedTarget {
  readonly target: Pick<Target, "kind" | "namespace" | "name">;
  readonly hasMigrations?: boolean;
}

class TargetFollower {
  readonly #clock: Session["clock"];
  readonly #startMs: number;
  readonly #first = Promise.withResolvers<Observation>();
  readonly #pending: Observation[] = [];
  readonly #unsubscribers: (() => void)[] = [];
  readonly #unlisted = new Set<string>();
  readonly #migrations = new Map<string, VirtualMachineInstanceMigration>();
  #vm: VirtualMachine | undefined;
  #vmi: VirtualMachineInstance | undefined;
  #visit: ((observation: Observation) => void) | undefined;

  constructor(session: Session, { target, hasMigrations = false }: FollowedTarget) {
    this.#clock = session.clock;
    this.#startMs = session.clock.monotonicMs();
    const { namespace, name } = target;
    const selection = { session, namespace, fieldSelector: `metadata.name=${name}` };
    if (target.kind === "virtualmachine") {
      this.#follow(
        VIRTUAL_MACHINES,
        selection,
        (reflection) => (this.#vm = findSingle(reflection)),
      );
    }
    this.#follow(
      VIRTUAL_MACHINE_INSTANCES,
      selection,
      (reflection) => (this.#vmi = findSingle(reflection)),
    );
    if (!hasMigrations) return;
    // All migrations are watched, because a new migration does not have the label with its VMI's name yet.
    const migrationSelection = { session, namespace };
    this.#follow(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, migrationSelection, (reflection) => {
      this.#storeMigrations(name, reflection);
    });
  }

  first(signal: AbortSignal): Promise<Observation> {
    return Promise.race([this.#first.promise, rejectOnAbort(signal)]);
  }

  /** Calls the goal's `visit` with each observation until it returns true. @throws AppError with KUBE_WAIT_TIMED_OUT */
  async until(goal: Goal, signal: AbortSignal): Promise<void> {
    const reached = Promise.withResolvers<undefined>();
    this.#visit = (observation) => {
      if (goal.visit(observation)) reached.resolve(undefined);
    };
    for (const observation of this.#pending.splice(0)) this.#visit(observation);
    const timer = new AbortController();
    const timeout = this.#clock.sleep(goal.timeoutMs, timer.signal).then(() => {
      const { what, timeoutMs, state } = goal;
      throw new AppError("KUBE_WAIT_TIMED_OUT", { what, timeoutMs, state: state() });
    });
    try {
      await Promise.race([reached.promise, timeout, rejectOnAbort(signal)]);
    } finally {
      timer.abort(new Error("the wait has ended"));
      await timeout.catch(() => undefined);
    }
  }

  close(): void {
    for (const end of this.#unsubscribers) end();
  }

  #storeMigrations(name: string, reflection: Reflection<VirtualMachineInstanceMigration>): void {
    if (reflection.kind === "listed") this.#migrations.clear();
    const received = reflection.kind === "listed" ? reflection.objects : [reflection.object];
    for (const migration of received.filter(({ spec }) => spec.vmiName === name)) {
      const { uid = "" } = migration.metadata;
      if (reflection.kind === "removed") this.#migrations.delete(uid);
      else this.#migrations.set(uid, migration);
    }
  }

  #follow<T extends KubeObject>(
    type: ResourceType<T>,
    { session, ...selection }: WatchSelection,
    store: (reflection: Reflection<T>) => void,
  ): void {
    const { kind } = type;
    this.#unlisted.add(kind);
    const subscription = session.client.reflect(type, selection).subscribe((reflection) => {
      store(reflection);
      if (reflection.kind === "listed") this.#unlisted.delete(kind);
      if (this.#unlisted.size === 0) this.#observe();
    });
    this.#unsubscribers.push(() => {
      subscription.unsubscribe();
    });
  }

  #observe(): void {
    const elapsedMs = this.#clock.monotonicMs() - this.#startMs;
    const migrations = [...this.#migrations.values()];
    const observation = { vm: this.#vm, vmi: this.#vmi, migrations, elapsedMs };
    this.#first.resolve(observation);
    // Until the wait starts, observations are stored, because one of them may already show the requested state.
    if (this.#visit === undefined) this.#pending.push(observation);
    else this.#visit(observation);
  }
}

const TIME_WIDTH = 9;

function printStep(step: Step): string {
  const seconds = (step.elapsedMs / 1000).toFixed(3).padStart(TIME_WIDTH);
  return `${seconds} s  ${escapeLine(printStage(step))}\n`;
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
  /** Name of the change in JSON and YAML output, for example `addinterface`. */
  readonly action: string;
  readonly request: ChangeRequest;
  /** Description of the change in messages, for example `interface blue: plug`. */
  readonly what: string;
  readonly inspectCommand: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly findStage: FindStage;
  /** Returns the verdict on the change. `first` is the state before the request. */
  readonly findVerdict: (now: Observation, first: Observation) => Verdict;
  readonly hasMigrations?: boolean;
  /** Reason not to wait for the change, as a message for the user. */
  readonly noWaitReason?: string;
}

export interface ChangeResult {
  /** `dryRun` means that the API server would accept the request and that nothing was changed. */
  readonly result: "requested" | "done" | "dryRun";
  readonly steps: readonly Step[];
  readonly elapsedMs?: number;
  /** Reason why the change takes effect later, or the API server's response to a dry run. */
  readonly note?: string;
  readonly warnings?: readonly string[];
}

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

export function statusMessage(text: string): string | undefined {
  const { kind, message } = JSON.parse(text) as { kind?: string; message?: string }; // The answer is a Status or another object.
  return kind === "Status" ? message : undefined;
}

async function sendDryRun(
  session: Session,
  context: Context,
  change: Change,
): Promise<ChangeResult> {
  const { text, warnings } = await send(session, context, { change, isDryRun: true });
  for (const warning of warnings) context.err.write(`warning: ${escapeLine(warning)}\n`);
  const note = statusMessage(text) ?? change.noWaitReason;
  return { result: "dryRun", steps: [], ...(note !== undefined && { note }), warnings };
}

function withInspectHint(error: unknown, { inspectCommand }: Change): unknown {
  if (!isAppError(error)) return error;
  const { code, details, cause } = error;
  return new AppError(code, { ...details, inspectCommand }, { cause });
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
  options: WaitOptions,
): Promise<ChangeResult> {
  const { change } = options;
  const follower = new TargetFollower(session, change);
  try {
    const first = await follower.first(context.signal);
    const startMs = session.clock.monotonicMs();
    const recorder = new StepRecorder(change.findStage, first, (step) => {
      if (context.global.output === "table") context.out.write(printStep(step));
    });
    await send(session, context, { change });
    const verdict = await follow(follower, { ...options, first, recorder }, context.signal);
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
  options: WaitOptions & { readonly first: Observation; readonly recorder: StepRecorder },
  signal: AbortSignal,
): Promise<Exclude<Verdict, { kind: "waiting" }>> {
  const { change, first, recorder, timeoutMs } = options;
  const what = titleOf(change);
  const verdicts: Exclude<Verdict, { kind: "waiting" }>[] = [];
  const visit = (observation: Observation): boolean => {
    recorder.record(observation);
    const verdict = change.findVerdict(observation, first);
    if (verdict.kind !== "waiting") verdicts.push(verdict);
    return verdict.kind !== "waiting";
  };
  try {
    await follower.until({ what, timeoutMs, state: () => recorder.state, visit }, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new AppError("KUBE_WAIT_INTERRUPTED", { what, state: recorder.state }, { cause: error });
  }
  const [verdict] = verdicts;
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

/**
 * Sends the request, or only a dry run with `--dry-run`. Waits for the effect of the request if `shouldWait` is true and
 * the change has no `noWaitReason`.
 */
export async function performChange(
  session: Session,
  context: Context,
  { change, input, shouldWait }: RequestedChange & { readonly shouldWait: boolean },
): Promise<ChangeResult> {
  const timeoutMs = numberOption(input, "timeout", 120_000);
  const { noWaitReason: note } = change;
  try {
    if (hasFlag(input, "dryRun")) return await sendDryRun(session, context, change);
    if (shouldWait && note === undefined) {
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
  const shouldWait = hasFlag(input, "wait");
  const outcome = await performChange(session, context, { ...requested, shouldWait });
  const { kind, namespace, name } = change.target;
  await printResult(context, {
    table: () => describeChange(change, outcome),
    data: { kind, namespace, name, action: change.action, ...change.fields, ...outcome },
    names: [`${kind}/${name}`],
  });
}
