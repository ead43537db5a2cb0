// SPDX-License-Identifier: Apache-2.0
// Which steps has a waited-for change gone through? Pure.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { Observation } from "./follow-target.ts";

/** What is looked at. */
export type Seen = Pick<Observation, "vmi" | "migrations">;

/** One step that was seen. */
export interface Step {
  readonly phase: string;
  readonly reason?: string;
  readonly message?: string;
  /** Since the request, milliseconds. */
  readonly elapsedMs: number;
}

/** A step without its time; undefined when there is nothing of the thing. */
export type Stage = Omit<Step, "elapsedMs"> | undefined;

/** Where an iface is: its phase, with the reason why it goes no further. */
export function ifaceStage(vmi: VirtualMachineInstance | undefined, name: string): Stage {
  const hotplug = vmi?.status?.interfaces?.find((iface) => iface.name === name)?.hotplug;
  if (hotplug === undefined) return undefined;
  const { phase, reason, message } = hotplug;
  return {
    phase,
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && message !== "" && { message }),
  };
}

/** Whether nothing is left of the iface: no status, no attachment, no entry in the spec. */
export function isIfaceGone(vmi: VirtualMachineInstance | undefined, name: string): boolean {
  const isNamed = (entry: { readonly name?: string }): boolean => entry.name === name;
  return ![
    ...(vmi?.status?.interfaces ?? []),
    ...(vmi?.status?.attachments ?? []),
    ...(vmi?.spec.domain.devices?.interfaces ?? []),
  ].some(isNamed);
}

/** Where a VMI is; undefined when there is none. */
export function vmiStage(vmi: VirtualMachineInstance | undefined): Stage {
  if (vmi === undefined) return undefined;
  if (vmi.metadata.deletionTimestamp !== undefined) return { phase: "Stopping" };
  const phase = vmi.status?.phase;
  const reason = vmi.status?.reason;
  return {
    phase: phase === undefined || phase === "" ? "Pending" : phase,
    ...(reason !== undefined && { reason }),
  };
}

/** Where a change is; `first` is how it stood before the request. */
export type StageOf = (now: Seen, first: Seen) => Stage;

/** Keeps the steps, without repeats. */
export class StepRecorder {
  readonly steps: Step[] = [];
  readonly #stageOf: StageOf;
  readonly #first: Seen;
  readonly #tell: (step: Step) => void;
  #last: string;

  /** What is so at `first` is no step. */
  constructor(stageOf: StageOf, first: Seen, tell: (step: Step) => void) {
    this.#stageOf = stageOf;
    this.#first = first;
    this.#tell = tell;
    this.#last = JSON.stringify(stageOf(first, first) ?? null);
  }

  record(observation: Seen & Pick<Observation, "elapsedMs">): void {
    const stage = this.#stageOf(observation, this.#first);
    const text = JSON.stringify(stage ?? null);
    if (text === this.#last) return;
    this.#last = text;
    if (stage === undefined) return;
    const step = { ...stage, elapsedMs: Math.round(observation.elapsedMs) };
    this.steps.push(step);
    this.#tell(step);
  }

  /** The last step in words. */
  get state(): string {
    const step = this.steps.at(-1);
    return step === undefined ? "unchanged" : printStage(step);
  }
}

/** A stage in words. */
export function printStage(stage: NonNullable<Stage>): string {
  const why = [stage.reason, stage.message].filter((text) => text !== undefined).join(": ");
  return why === "" ? stage.phase : `${stage.phase} (${why})`;
}
