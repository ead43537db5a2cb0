// SPDX-License-Identifier: Apache-2.0
// What plugins are asked, and what becomes of it, in numbers.
import type { Cni, Clock, Logger } from "@patchbay/core/ports";
import type { Metrics } from "@patchbay/telemetry";
import { wrapCni } from "@patchbay/cni";

type Command = "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "RELEASE";

/** The same plugins, whose operations are counted as `patchbay_cni_operations_total`. */
export function countOperations(cni: Cni, metrics: Pick<Metrics, "addCounter">): Cni {
  const count = metrics.addCounter({
    name: "patchbay_cni_operations_total",
    help: "Operations of CNI on whole lists of plugins, by what became of them.",
    labelNames: ["command", "result"],
  });
  const counted = async <T>(command: Command, operation: Promise<T>): Promise<T> => {
    try {
      const outcome = await operation;
      // What configuration or version keep from being asked says so.
      count({ command, result: outcome === false ? "unasked" : "done" });
      return outcome;
    } catch (error) {
      count({ command, result: "failed" });
      throw error;
    }
  };
  return {
    add: (request) => counted("ADD", cni.add(request)),
    del: (request, prevResult) => counted("DEL", cni.del(request, prevResult)),
    check: (request, prevResult) => counted("CHECK", cni.check(request, prevResult)),
    status: (config) => counted("STATUS", cni.status(config)),
    gc: (config, listValid) => counted("GC", cni.gc(config, listValid)),
    releaseAddresses: (request) => counted("RELEASE", cni.releaseAddresses(request)),
  };
}

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

function countInBatch(cni: Cni, count: Count): Cni {
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
    cni: countInBatch(cni, count),
  };
}
