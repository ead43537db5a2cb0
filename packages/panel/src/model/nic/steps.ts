// SPDX-License-Identifier: Apache-2.0
// Which phases has a plug gone through since the page was opened, and when? Pure.
import type { Plug } from "./plug.ts";
import type { Unit } from "../unit.ts";

/** A phase that was seen. */
export interface PlugStep {
  readonly phase: string;
  readonly reason?: string;
  /** When it was seen, milliseconds of any clock. */
  readonly atMs: number;
  /** It was so already when the rack was listed. */
  readonly isOld?: true;
}

/** By `namespace/name/iface`. */
export type Steps = ReadonlyMap<string, readonly PlugStep[]>;

/** Steps of one plug that are kept. */
const KEPT = 20;

/** How a plug is called among all. */
export function plugKey(unitKey: string, name: string): string {
  return `${unitKey}/${name}`;
}

function isSame(last: PlugStep | undefined, plug: Plug): boolean {
  return last?.phase === plug.phase && last?.reason === plug.reason;
}

/** When units were seen, and whether they were listed rather than told of. */
export interface SeenAt {
  readonly atMs: number;
  readonly isList: boolean;
}

/** The steps with what the units say now; the same object where nothing is new. */
export function withSteps(steps: Steps, units: readonly Unit[], { atMs, isList }: SeenAt): Steps {
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
      return [[name, [...known, step].slice(-KEPT)] as const];
    }),
  );
  return added.length === 0 ? steps : new Map([...steps, ...added]);
}
