// SPDX-License-Identifier: Apache-2.0
// Reads and writes the supervisor's state file, which other processes watch.
import { isJsonObject } from "@patchbay/api/json";
import { isRunning, readBootId, type ProcessName } from "@patchbay/os";
import type { Clock } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import type { Build } from "../config.ts";
import { readNumber, readFields, readText } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";

export type SupervisorPhase = "starting" | "ready" | "stopping" | "stopped" | "failed";

const PHASES: readonly SupervisorPhase[] = ["starting", "ready", "stopping", "stopped", "failed"];

export interface Step {
  /** Milliseconds since the supervisor began to start or stop the machine. */
  readonly afterMs: number;
  readonly text: string;
}

export interface SupervisorState extends ProcessName, Partial<Build> {
  readonly bootId: string;
  readonly phase: SupervisorPhase;
  readonly steps: readonly Step[];
  readonly reason: string;
}

export function findFailureReason(state: SupervisorState | undefined, otherwise: string): string {
  const reason = state?.reason ?? "";
  return reason === "" ? otherwise : reason;
}

function toStep(value: unknown): readonly Step[] {
  if (!isJsonObject(value)) return [];
  return [{ afterMs: readNumber(value, "afterMs") ?? 0, text: readText(value, "text") }];
}

export async function readState(files: Files, paths: Paths): Promise<SupervisorState | undefined> {
  const fields = await readFields(files, paths.state);
  const phase = PHASES.find((each) => each === readText(fields, "phase"));
  const pid = readNumber(fields, "pid");
  if (fields === undefined || phase === undefined || pid === undefined) return undefined;
  const steps = fields["steps"];
  const [version, build] = [readText(fields, "version"), readText(fields, "build")];
  return {
    ...(version !== "" && { version }),
    ...(build !== "" && { build }),
    pid,
    startTime: readText(fields, "startTime"),
    bootId: readText(fields, "bootId"),
    phase,
    steps: Array.isArray(steps) ? steps.flatMap(toStep) : [],
    reason: readText(fields, "reason"),
  };
}

export async function findSupervisor(
  files: Files,
  paths: Paths,
): Promise<SupervisorState | undefined> {
  const state = await readState(files, paths);
  if (state === undefined || state.bootId !== (await readBootId(files))) return undefined;
  return (await isRunning(state)) ? state : undefined;
}

export class StateWriter {
  readonly #deps: { readonly files: Files; readonly clock: Clock; readonly paths: Paths };
  readonly #identity: ProcessName & Partial<Build> & { readonly bootId: string };
  readonly #onStep: (step: Step) => void;
  #phase: SupervisorPhase = "starting";
  #steps: Step[] = [];
  #startMs: number;
  #lastWrite: Promise<void> = Promise.resolve();

  constructor(
    deps: { readonly files: Files; readonly clock: Clock; readonly paths: Paths },
    identity: ProcessName & Partial<Build> & { readonly bootId: string },
    onStep: (step: Step) => void = () => undefined,
  ) {
    this.#deps = deps;
    this.#identity = identity;
    this.#onStep = onStep;
    this.#startMs = deps.clock.monotonicMs();
  }

  enterPhase(phase: SupervisorPhase, reason = ""): Promise<void> {
    this.#phase = phase;
    if (phase === "stopping") {
      this.#steps = [];
      this.#startMs = this.#deps.clock.monotonicMs();
    }
    return this.#write(reason);
  }

  addStep(text: string): Promise<void> {
    const afterMs = Math.round(this.#deps.clock.monotonicMs() - this.#startMs);
    const step = { afterMs, text };
    this.#steps.push(step);
    this.#onStep(step);
    return this.#write("");
  }

  #write(reason: string): Promise<void> {
    const { files, paths } = this.#deps;
    const state = { ...this.#identity, phase: this.#phase, steps: [...this.#steps], reason };
    this.#lastWrite = this.#lastWrite.then(() =>
      files.writeAtomic(paths.state, `${JSON.stringify(state)}\n`),
    );
    return this.#lastWrite;
  }
}

/** Returns whether the recorded process runs. PID, start time and boot id identify the process. */
export async function isRecordedRunning(files: Files, file: string): Promise<boolean> {
  const fields = await readFields(files, file);
  const process = { pid: readNumber(fields, "pid") ?? 0, startTime: readText(fields, "startTime") };
  return readText(fields, "bootId") === (await readBootId(files)) && isRunning(process);
}
