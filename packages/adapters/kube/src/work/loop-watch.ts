// SPDX-License-Identifier: Apache-2.0
// Health of a loop: whether it has processed its first listing, and whether it is stuck. Evaluated on demand.
import type { Clock } from "@patchbay/base";

/**
 * Milliseconds without progress after which a pass is stuck: more than its longest step, a chain of four CNI plugins
 * that all time out and are rolled back: 4 × (60 s + 30 s), and some requests of 10 s each.
 */
const STUCK_AFTER_MS = 600_000;

export interface Standstill {
  readonly loop: string;
  readonly key: string;
  /** Time since the last progress, in milliseconds. */
  readonly forMs: number;
}

export interface WatchedPass {
  /** Restarts the time limit after a step. */
  readonly recordProgress: () => void;
  readonly end: (hasWorked: boolean) => void;
}

export class LoopWatch {
  readonly #name: string;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #passes = new Set<{ readonly key: string; lastProgressMs: number }>();
  /** Keys of the first listing that had no pass yet; undefined before the loop starts. */
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

  /** Checks whether each key of the first listing had a pass and any pass succeeded, because one object may always fail. */
  isStarted(): boolean {
    return this.#keysWithoutPass?.size === 0 && this.#hasWorked;
  }

  /** Returns the pass that is stuck longest; undefined if none exceeds the limit. */
  findStandstill(): Standstill | undefined {
    const nowMs = this.#clock.monotonicMs();
    const [longest] = [...this.#passes]
      .map(({ key, lastProgressMs }) => ({ loop: this.#name, key, forMs: nowMs - lastProgressMs }))
      .sort((a, b) => b.forMs - a.forMs);
    return longest !== undefined && longest.forMs > this.#limitMs ? longest : undefined;
  }
}
