// SPDX-License-Identifier: Apache-2.0
// What the supervisor says of itself, and how others follow it: a small file, replaced at each step.
import { isJsonObject } from "@patchbay/api/json";
import { isRunning, readBootId, type ProcessName } from "@patchbay/os";
import type { Clock, Files } from "@patchbay/core/ports";
import { numberOf, readFields, textOf } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";

/** Where a supervisor is. */
export type SupervisorPhase = "starting" | "ready" | "stopping" | "stopped" | "failed";

const PHASES: readonly SupervisorPhase[] = ["starting", "ready", "stopping", "stopped", "failed"];

/** One step that was taken. */
export interface Step {
  /** Milliseconds since the supervisor began to start or to stop. */
  readonly afterMs: number;
  readonly text: string;
}

/** A supervisor, as its file says. */
export interface SupervisorState extends ProcessName {
  readonly bootId: string;
  readonly phase: SupervisorPhase;
  readonly steps: readonly Step[];
  /** Why it failed. */
  readonly reason: string;
}

/** Why it failed, or `otherwise` when it did not say. */
export function reasonOf(state: SupervisorState | undefined, otherwise: string): string {
  const reason = state?.reason ?? "";
  return reason === "" ? otherwise : reason;
}

function toStep(value: unknown): readonly Step[] {
  if (!isJsonObject(value)) return [];
  return [{ afterMs: numberOf(value, "afterMs") ?? 0, text: textOf(value, "text") }];
}

/** Reads the file; undefined when no supervisor has ever said anything. */
export async function readState(files: Files, paths: Paths): Promise<SupervisorState | undefined> {
  const fields = await readFields(files, paths.state);
  const phase = PHASES.find((each) => each === textOf(fields, "phase"));
  const pid = numberOf(fields, "pid");
  if (fields === undefined || phase === undefined || pid === undefined) return undefined;
  const steps = fields["steps"];
  return {
    pid,
    startTime: textOf(fields, "startTime"),
    bootId: textOf(fields, "bootId"),
    phase,
    steps: Array.isArray(steps) ? steps.flatMap(toStep) : [],
    reason: textOf(fields, "reason"),
  };
}

/** The supervisor that runs now, or undefined. */
export async function findSupervisor(
  files: Files,
  paths: Paths,
): Promise<SupervisorState | undefined> {
  const state = await readState(files, paths);
  if (state === undefined || state.bootId !== (await readBootId(files))) return undefined;
  return (await isRunning(state)) ? state : undefined;
}

/** Writes the file step by step. */
export class StateWriter {
  readonly #deps: { readonly files: Files; readonly clock: Clock; readonly paths: Paths };
  readonly #who: ProcessName & { readonly bootId: string };
  readonly #onStep: (step: Step) => void;
  #phase: SupervisorPhase = "starting";
  #steps: Step[] = [];
  #begunMs: number;
  /** Writes come one after the other, in order. */
  #last: Promise<void> = Promise.resolve();

  constructor(
    deps: { readonly files: Files; readonly clock: Clock; readonly paths: Paths },
    who: ProcessName & { readonly bootId: string },
    onStep: (step: Step) => void = () => undefined,
  ) {
    this.#deps = deps;
    this.#who = who;
    this.#onStep = onStep;
    this.#begunMs = deps.clock.monotonicMs();
  }

  /** Begins another phase; `stopping` begins to count steps anew. */
  enter(phase: SupervisorPhase, reason = ""): Promise<void> {
    this.#phase = phase;
    if (phase === "stopping") {
      this.#steps = [];
      this.#begunMs = this.#deps.clock.monotonicMs();
    }
    return this.#write(reason);
  }

  /** Says that something is done. */
  step(text: string): Promise<void> {
    const afterMs = Math.round(this.#deps.clock.monotonicMs() - this.#begunMs);
    const step = { afterMs, text };
    this.#steps.push(step);
    this.#onStep(step);
    return this.#write("");
  }

  #write(reason: string): Promise<void> {
    const { files, paths } = this.#deps;
    const state = { ...this.#who, phase: this.#phase, steps: [...this.#steps], reason };
    this.#last = this.#last.then(() =>
      files.writeAtomic(paths.state, `${JSON.stringify(state)}\n`),
    );
    return this.#last;
  }
}
