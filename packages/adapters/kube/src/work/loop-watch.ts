// SPDX-License-Identifier: Apache-2.0
// Health of a loop: whether it has processed its first listing, and whether it is stuck. Evaluated on demand.
import type { Clock } from "@patchbay/base";

/**
 * Milliseconds without progress of a pass, more than its longest step. The longest is a chain of four CNI plugins
 * that all time out and are rolled back: 4 × (60 s + 30 s), and some requests of 10 s each.
 */
const STUCK_AFTER_MS = 600_000;

export interface Standstill {
  readonly loop: string;
  readonly key: string;
  /** Milliseconds since its last progress. */
  readonly forMs: number;
}

export interface WatchedPass {
  /** Restarts the time limit after a step. */
  readonly progressed: () => void;
  readonly end: (hasWorked: boolean) => void;
}

export class LoopWatch {
  readonly #name: string;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #passes = new Set<{ readonly key: string; progressedMs: number }>();
  /** Keys of the first listing without a pass yet; undefined before the loop starts. */
  #first: Set<string> | undefined;
  #hasWorked = false;

  constructor(name: string, clock: Clock, limitMs: number = STUCK_AFTER_MS) {
    this.#name = name;
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  start(keys: Iterable<string>): void {
    this.#first = new Set(keys);
    this.#hasWorked = this.#first.size === 0;
  }

  begin(key: string): WatchedPass {
    const pass = { key, progressedMs: this.#clock.monotonicMs() };
    this.#passes.add(pass);
    return {
      progressed: () => {
        pass.progressedMs = this.#clock.monotonicMs();
      },
      end: (hasWorked) => {
        this.#passes.delete(pass);
        this.#first?.delete(key);
        this.#hasWorked ||= hasWorked;
      },
    };
  }

  /** Whether each key of the first listing has had a pass and one succeeded. A single failing object does not matter. */
  isStarted(): boolean {
    return this.#first?.size === 0 && this.#hasWorked;
  }

  /** The longest stuck pass; undefined if none exceeds the limit. */
  findStandstill(): Standstill | undefined {
    const nowMs = this.#clock.monotonicMs();
    const [longest] = [...this.#passes]
      .map(({ key, progressedMs }) => ({ loop: this.#name, key, forMs: nowMs - progressedMs }))
      .sort((a, b) => b.forMs - a.forMs);
    return longest !== undefined && longest.forMs > this.#limitMs ? longest : undefined;
  }
}
