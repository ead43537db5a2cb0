// SPDX-License-Identifier: Apache-2.0
// Phases of a plug since the page was opened. Pure.
import type { Plug } from "./plug.ts";
import type { Unit } from "../unit.ts";

export interface PlugStep {
  readonly phase: string;
  readonly reason?: string;
  /** Milliseconds of any clock. */
  readonly atMs: number;
  /** It was already so in the first list. */
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

/** `isList`: the units come from a list instead of a change. */
export interface StepTime {
  readonly atMs: number;
  readonly isList: boolean;
}

/** Returns the same object if nothing is new. */
export function withSteps(steps: Steps, units: readonly Unit[], { atMs, isList }: StepTime): Steps {
  const added = units.flatMap(({ key, plugs }) =>
    plugs.flatMap((plug) => {
      const { phase, reason } = plug;
      const name = plugKey(key, plug.name);
      const known = steps.get(name) ?? [];
      if (phase === undefined || isSame(known.at(-1), plug)) return [];
      const step: PlugStep = {
        phase,
        atMs,
        ...(reason !== undefined && { reason }),
        ...(isList && { isOld: true }),
      };
      return [[name, [...known, step].slice(-STEPS_MAX)] as const];
    }),
  );
  return added.length === 0 ? steps : new Map([...steps, ...added]);
}
