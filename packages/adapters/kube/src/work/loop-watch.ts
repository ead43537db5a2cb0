// SPDX-License-Identifier: Apache-2.0
// Health of a reconcile loop: whether all initial keys were processed, and whether a reconcile pass is stuck.
import type { Clock } from "@patchbay/base";

/**
 * Milliseconds without progress after which a pass counts as stuck. The longest step takes about 400 s: ADD of four
 * CNI plugins with 60 s each, DEL with 30 s each, and some requests with 10 s each.
 */
const STUCK_AFTER_MS = 600_000;

export interface StuckPass {
  readonly loop: string;
  readonly key: string;
  readonly stuckMs: number;
}

export interface WatchedPass {
  /** Records that a step of the pass has ended, which restarts the time limit. */
  readonly recordProgress: () => void;
  readonly end: (hasWorked: boolean) => void;
}

export class LoopWatch {
  readonly #name: string;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #passes = new Set<{ readonly key: string; lastProgressMs: number }>();
  /** Initial keys that have not been processed. Undefined before the loop starts. */
  #keysWithoutPass: Set<string> | undefined;
  #hasWorked = false;

  constructor(name: string, clock: Clock, limitMs: number = STUCK_AFTER_MS) {
    this.#name = name;
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  start(keys: Iterable<string>): void {
    this.#keysWithoutPass = new Set(keys);
    this.#hasWorked = this.#keysWithoutPass.size === 0;
  }

  begin(key: string): WatchedPass {
    const pass = { key, lastProgressMs: this.#clock.monotonicMs() };
    this.#passes.add(pass);
    return {
      recordProgress: () => {
        pass.lastProgressMs = this.#clock.monotonicMs();
      },
      end: (hasWorked) => {
        this.#passes.delete(pass);
        this.#keysWithoutPass?.delete(key);
        this.#hasWorked ||= hasWorked;
      },
    };
  }

  /** Checks whether every initial key has had a pass and one pass succeeded. One success is enough, because keys may fail permanently. */
  isStarted(): boolean {
    return this.#keysWithoutPass?.size === 0 && this.#hasWorked;
  }

  findStuckPass(): StuckPass | undefined {
    const nowMs = this.#clock.monotonicMs();
    const [longest] = [...this.#passes]
      .map(({ key, lastProgressMs }) => ({
        loop: this.#name,
        key,
        stuckMs: nowMs - lastProgressMs,
      }))
      .sort((a, b) => b.stuckMs - a.stuckMs);
    return longest !== undefined && longest.stuckMs > this.#limitMs ? longest : undefined;
  }
}
