// SPDX-License-Identifier: Apache-2.0
// Steps that a change goes through while a command waits for it. Pure.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { Observation } from "./follow-target.ts";

export type VmiState = Pick<Observation, "vmi" | "migrations">;

export interface Step {
  readonly phase: string;
  readonly reason?: string;
  readonly message?: string;
  /** Milliseconds since the request. */
  readonly elapsedMs: number;
}

/** A step without its time; undefined if the object does not exist. */
export type Stage = Omit<Step, "elapsedMs"> | undefined;

/** Phase of an interface, with the reason why it is blocked. */
export function findIfaceStage(vmi: VirtualMachineInstance | undefined, name: string): Stage {
  const hotplug = vmi?.status?.interfaces?.find((iface) => iface.name === name)?.hotplug;
  if (hotplug === undefined) return undefined;
  const { phase, reason, message } = hotplug;
  return {
    phase,
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && message !== "" && { message }),
  };
}

/** Whether nothing is left of the interface: no status, no attachment, no entry in the spec. */
export function isIfaceGone(vmi: VirtualMachineInstance | undefined, name: string): boolean {
  const isNamed = (entry: { readonly name?: string }): boolean => entry.name === name;
  return ![
    ...(vmi?.status?.interfaces ?? []),
    ...(vmi?.status?.attachments ?? []),
    ...(vmi?.spec.domain.devices?.interfaces ?? []),
  ].some(isNamed);
}

export function findVmiStage(vmi: VirtualMachineInstance | undefined): Stage {
  if (vmi === undefined) return undefined;
  if (vmi.metadata.deletionTimestamp !== undefined) return { phase: "Stopping" };
  const phase = vmi.status?.phase;
  const reason = vmi.status?.reason;
  return {
    phase: phase === undefined || phase === "" ? "Pending" : phase,
    ...(reason !== undefined && { reason }),
  };
}

/** Current stage of a change; `first` is the state before the request. */
export type StageOf = (now: VmiState, first: VmiState) => Stage;

export class StepRecorder {
  readonly steps: Step[] = [];
  readonly #findStage: StageOf;
  readonly #first: VmiState;
  readonly #onStep: (step: Step) => void;
  #last: string;

  /** The stage at `first` is not recorded as a step. */
  constructor(findStage: StageOf, first: VmiState, onStep: (step: Step) => void) {
    this.#findStage = findStage;
    this.#first = first;
    this.#onStep = onStep;
    this.#last = JSON.stringify(findStage(first, first) ?? null);
  }

  record(observation: VmiState & Pick<Observation, "elapsedMs">): void {
    const stage = this.#findStage(observation, this.#first);
    const text = JSON.stringify(stage ?? null);
    if (text === this.#last) return;
    this.#last = text;
    if (stage === undefined) return;
    const step = { ...stage, elapsedMs: Math.round(observation.elapsedMs) };
    this.steps.push(step);
    this.#onStep(step);
  }

  get state(): string {
    const step = this.steps.at(-1);
    return step === undefined ? "unchanged" : printStage(step);
  }
}

export function printStage(stage: NonNullable<Stage>): string {
  const why = [stage.reason, stage.message].filter((text) => text !== undefined).join(": ");
  return why === "" ? stage.phase : `${stage.phase} (${why})`;
}
