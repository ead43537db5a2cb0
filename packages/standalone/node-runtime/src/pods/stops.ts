// SPDX-License-Identifier: Apache-2.0
import { messageOf, type Clock, type Logger } from "@patchbay/base";
import type { ContainerRuntime } from "@patchbay/core/interfaces";

export interface Stops {
  /** Stops the container, then enqueues the pod. Does nothing if a running stop has an earlier or nearly equal deadline. */
  begin(uid: string, id: string, graceSeconds: number): void;
}

/** A running stop is repeated only if the new deadline is earlier than the old deadline by more than this time, in milliseconds. */
const DEADLINE_TOLERANCE_MS = 1000;
const STOP_RETRY_INTERVAL_MS = 1000;

interface StopDeps {
  readonly runtime: ContainerRuntime;
  readonly clock: Clock;
  readonly log: Logger;
  readonly wake: (uid: string, afterMs: number) => void;
}

export function createStops({ runtime, clock, log, wake }: StopDeps): Stops {
  const deadlines = new Map<string, number>();
  const stop = async (uid: string, id: string, graceSeconds: number): Promise<void> => {
    try {
      await runtime.stopContainer(id, graceSeconds);
      wake(uid, 0);
    } catch (error) {
      log.warn("container cannot be stopped", { uid, object: id, reason: messageOf(error) });
      wake(uid, STOP_RETRY_INTERVAL_MS);
    }
  };
  return {
    begin: (uid, id, graceSeconds) => {
      const dueMs = clock.monotonicMs() + graceSeconds * 1000;
      const currentDeadline = deadlines.get(id);
      if (currentDeadline !== undefined && dueMs > currentDeadline - DEADLINE_TOLERANCE_MS) return;
      deadlines.set(id, dueMs);
      void stop(uid, id, graceSeconds).finally(() => {
        if (deadlines.get(id) === dueMs) deadlines.delete(id);
      });
    },
  };
}
