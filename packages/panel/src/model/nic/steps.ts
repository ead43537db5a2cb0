// SPDX-License-Identifier: Apache-2.0
// Records the phases of each plug since the page was opened.
import type { Plug } from "./plug.ts";
import type { Unit } from "../unit.ts";

export interface PlugStep {
  readonly phase: string;
  readonly reason?: string;
  readonly atMs: number;
  /** Whether the phase may have begun before the page was opened. */
  readonly isOld?: true;
}

export type Steps = ReadonlyMap<string, readonly PlugStep[]>;

const STEPS_MAX = 20;

export function plugKey(unitKey: string, name: string): string {
  return `${unitKey}/${name}`;
}

function isSame(last: PlugStep | undefined, plug: Plug): boolean {
  return last?.phase === plug.phase && last?.reason === plug.reason;
}

/** Time of an update. `isList` means that the units come from a list, so their phases may have begun before `atMs`. */
export interface StepTime {
  readonly atMs: number;
  readonly isList: boolean;
}

/** Adds a step for each new phase or reason. Returns the same object if no plug has a new phase or reason. */
export function withSteps(steps: Steps, units: readonly Unit[], { atMs, isList }: StepTime): Steps {
  const newEntries = units.flatMap(({ key, plugs }) =>
    plugs.flatMap((plug) => {
      const { phase, reason } = plug;
      const name = plugKey(key, plug.name);
      const previousSteps = steps.get(name) ?? [];
      if (phase === undefined || isSame(previousSteps.at(-1), plug)) return [];
      const step: PlugStep = {
        phase,
        atMs,
        ...(reason !== undefined && { reason }),
        ...(isList && { isOld: true }),
      };
      return [[name, [...previousSteps, step].slice(-STEPS_MAX)] as const];
    }),
  );
  return newEntries.length === 0 ? steps : new Map([...steps, ...newEntries]);
}
