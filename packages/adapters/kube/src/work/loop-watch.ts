// SPDX-License-Identifier: Apache-2.0
// Health of a reconcile loop: progress through its initial keys, and stuck passes.
import type { Clock } from "@patchbay/base";

/** Milliseconds without progress until a pass is stuck. ADD of four CNI plugins takes 400 s. */
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

  /** Checks whether every initial key had a pass and one pass succeeded. Keys may fail permanently. */
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
