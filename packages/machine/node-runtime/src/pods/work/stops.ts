// SPDX-License-Identifier: Apache-2.0
// Containers that have been asked to end: the runtime's call lasts as long as that takes, and no pass waits for it.
import { messageOf } from "@patchbay/core";
import type { Clock, ContainerRuntime, Logger } from "@patchbay/core/ports";

/** Stops that are under way. */
export interface Stops {
  /** Asks, unless it has been asked already to end by then; wakes the pod when it has ended or could not be asked. */
  begin(uid: string, id: string, graceSeconds: number): void;
}

/** A request to end sooner than before is passed on when it is sooner by this much, milliseconds. */
const SOONER_MS = 1000;
/** Pause after a call that failed, milliseconds. */
const RETRY_MS = 1000;

/** What stops need. */
export interface StopDeps {
  readonly runtime: ContainerRuntime;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wake: (uid: string, afterMs: number) => void;
}

/** None are under way at first. */
export function createStops({ runtime, clock, log, wake }: StopDeps): Stops {
  const deadlines = new Map<string, number>();
  const stop = async (uid: string, id: string, graceSeconds: number): Promise<void> => {
    try {
      await runtime.stopContainer(id, graceSeconds);
      wake(uid, 0);
    } catch (error) {
      log.warn("container cannot be stopped", { uid, object: id, reason: messageOf(error) });
      wake(uid, RETRY_MS);
    }
  };
  return {
    begin: (uid, id, graceSeconds) => {
      const dueMs = clock.monotonicMs() + graceSeconds * 1000;
      const underWay = deadlines.get(id);
      if (underWay !== undefined && dueMs > underWay - SOONER_MS) return;
      deadlines.set(id, dueMs);
      void stop(uid, id, graceSeconds).finally(() => {
        if (deadlines.get(id) === dueMs) deadlines.delete(id);
      });
    },
  };
}
