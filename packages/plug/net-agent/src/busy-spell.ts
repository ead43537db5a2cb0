// SPDX-License-Identifier: Apache-2.0
// After a start of the node everybody's pods come at once: how long did it take until all had their networks?
import { wrapCni } from "@patchbay/cni";
import type { Clock, Cni, Logger } from "@patchbay/core/ports";

/** Fewer operations than these are told one by one, in the pods' own events. */
const TOLD_FROM = 20;

/** The time from the first pod that is worked on until no pod is, nor waits to be. */
export interface BusySpell {
  /** Runs a pass over a pod as part of the spell. */
  pass<T>(key: string, work: () => Promise<T>): Promise<T>;
  /** The same plugins, whose operations are counted. */
  readonly cni: Cni;
}

interface Spell {
  readonly beganMs: number;
  readonly pods: Set<string>;
  attached: number;
  detached: number;
  failed: number;
}

type Counted = "attached" | "detached";

/** Counts what ends well by its kind, and what fails. */
type Count = <T>(operation: Promise<T>, as: Counted) => Promise<T>;

function countedCni(cni: Cni, count: Count): Cni {
  return wrapCni(cni, {
    add: (request) => count(cni.add(request), "attached"),
    del: (request, prevResult) => count(cni.del(request, prevResult), "detached"),
  });
}

/** Tells of each spell of many operations in the log, at its end. `isQuiet`: whether nothing waits. */
export function createBusySpell(
  { cni, clock, log }: { readonly cni: Cni; readonly clock: Clock; readonly log: Logger },
  isQuiet: () => boolean,
): BusySpell {
  let spell: Spell | undefined;
  let working = 0;

  const begin = (key: string): void => {
    working += 1;
    spell ??= {
      beganMs: clock.monotonicMs(),
      pods: new Set(),
      attached: 0,
      detached: 0,
      failed: 0,
    };
    spell.pods.add(key);
  };

  const end = (): void => {
    working -= 1;
    if (working > 0 || !isQuiet() || spell === undefined) return;
    const { beganMs, pods, ...counts } = spell;
    spell = undefined;
    if (counts.attached + counts.detached + counts.failed < TOLD_FROM) return;
    const durationMs = Math.round(clock.monotonicMs() - beganMs);
    log.info("networks of many pods were worked on", { pods: pods.size, ...counts, durationMs });
  };

  const count = async <T>(operation: Promise<T>, as: Counted): Promise<T> => {
    try {
      const result = await operation;
      if (spell !== undefined) spell[as] += 1;
      return result;
    } catch (error) {
      if (spell !== undefined) spell.failed += 1;
      throw error;
    }
  };

  return {
    pass: async (key, work) => {
      begin(key);
      try {
        return await work();
      } finally {
        end();
      }
    },
    cni: countedCni(cni, count),
  };
}
