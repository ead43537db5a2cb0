// SPDX-License-Identifier: Apache-2.0
// Counts CNI operations for metrics, and logs a summary of each large batch.
import type { Cni } from "@patchbay/core/interfaces";
import type { Clock, Logger } from "@patchbay/base";
import type { Metrics } from "@patchbay/telemetry";
import { wrapCni } from "@patchbay/cni";

type Command = "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "RELEASE";

export function countOperations(cni: Cni, metrics: Pick<Metrics, "addCounter">): Cni {
  const count = metrics.addCounter({
    name: "patchbay_cni_operations_total",
    help: "CNI operations on plugin lists, by result.",
    labelNames: ["command", "result"],
  });
  const countResult = async <T>(command: Command, operation: Promise<T>): Promise<T> => {
    try {
      const result = await operation;
      // `false` means that the network's configuration or CNI version does not support the operation.
      count({ command, result: result === false ? "unasked" : "done" });
      return result;
    } catch (error) {
      count({ command, result: "failed" });
      throw error;
    }
  };
  return {
    add: (request) => countResult("ADD", cni.add(request)),
    del: (request, prevResult) => countResult("DEL", cni.del(request, prevResult)),
    check: (request, prevResult) => countResult("CHECK", cni.check(request, prevResult)),
    status: (config) => countResult("STATUS", cni.status(config)),
    gc: (config, listValid) => countResult("GC", cni.gc(config, listValid)),
    releaseAddresses: (request) => countResult("RELEASE", cni.releaseAddresses(request)),
  };
}

/** Minimum number of CNI operations in a batch that is logged. */
const LOGGED_OPERATIONS_MIN = 20;

/** Collects statistics of batches. A batch starts with a reconcile pass, and ends when no pass runs and the queue is empty. */
export interface BatchStats {
  runPass<T>(key: string, work: () => Promise<T>): Promise<T>;
  readonly cni: Cni;
}

interface Batch {
  readonly startedMs: number;
  readonly pods: Set<string>;
  attached: number;
  detached: number;
  failed: number;
}

type OperationKind = "attached" | "detached";

type Count = <T>(operation: Promise<T>, kind: OperationKind) => Promise<T>;

function countInBatch(cni: Cni, count: Count): Cni {
  return wrapCni(cni, {
    add: (request) => count(cni.add(request), "attached"),
    del: (request, prevResult) => count(cni.del(request, prevResult), "detached"),
  });
}

/** Logs each large batch of operations when it ends. `isIdle` returns true when the queue is empty. */
export function createBatchStats(
  { cni, clock, log }: { readonly cni: Cni; readonly clock: Clock; readonly log: Logger },
  isIdle: () => boolean,
): BatchStats {
  let batch: Batch | undefined;
  let activePasses = 0;

  const begin = (key: string): void => {
    activePasses += 1;
    batch ??= {
      startedMs: clock.monotonicMs(),
      pods: new Set(),
      attached: 0,
      detached: 0,
      failed: 0,
    };
    batch.pods.add(key);
  };

  const end = (): void => {
    activePasses -= 1;
    if (activePasses > 0 || !isIdle() || batch === undefined) return;
    const { startedMs, pods, ...counts } = batch;
    batch = undefined;
    if (counts.attached + counts.detached + counts.failed < LOGGED_OPERATIONS_MIN) return;
    const durationMs = Math.round(clock.monotonicMs() - startedMs);
    log.info("finished a batch of CNI operations", { pods: pods.size, ...counts, durationMs });
  };

  const count = async <T>(operation: Promise<T>, kind: OperationKind): Promise<T> => {
    try {
      const result = await operation;
      if (batch !== undefined) batch[kind] += 1;
      return result;
    } catch (error) {
      if (batch !== undefined) batch.failed += 1;
      throw error;
    }
  };

  return {
    runPass: async (key, work) => {
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
