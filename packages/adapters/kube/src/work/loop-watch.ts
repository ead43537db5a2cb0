// SPDX-License-Identifier: Apache-2.0
// Has a loop acted on its first listing, and does it stand still? Judged when somebody asks: nothing runs meanwhile.
import type { Clock } from "@patchbay/core/ports";

/**
 * How long a pass may go without progress, milliseconds: longer than any one step of one. The longest is a chain of four
 * CNI plugins that all hang, and are taken back: 4 × (60 s + 30 s), and some requests of 10 s each.
 */
const STANDS_STILL_MS = 600_000;

/** A pass that has gone on for longer than it can. */
export interface Standstill {
  readonly loop: string;
  readonly key: string;
  /** Milliseconds since it last progressed. */
  readonly forMs: number;
}

/** One pass, while it runs. */
export interface WatchedPass {
  /** A step of it has ended, and another one may take its time. */
  readonly progressed: () => void;
  /** It is over. */
  readonly end: (hasWorked: boolean) => void;
}

/** What is known of one loop. */
export class LoopWatch {
  readonly #name: string;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #passes = new Set<{ readonly key: string; progressedMs: number }>();
  /** Keys of the first listing that have had no pass yet; undefined before the loop begins. */
  #first: Set<string> | undefined;
  #hasWorked = false;

  constructor(name: string, clock: Clock, limitMs: number = STANDS_STILL_MS) {
    this.#name = name;
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /** The loop begins with the keys of its first listing. */
  start(keys: Iterable<string>): void {
    this.#first = new Set(keys);
    this.#hasWorked = this.#first.size === 0;
  }

  /** A pass over the key begins. */
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

  /**
   * Whether each key of the first listing has had its pass and, if there were any, a pass has worked. One object that
   * cannot be worked on holds nothing up.
   */
  isUnderWay(): boolean {
    return this.#first?.size === 0 && this.#hasWorked;
  }

  /** The pass that has stood still for longest; undefined: none has for longer than it can. */
  findStandstill(): Standstill | undefined {
    const nowMs = this.#clock.monotonicMs();
    const [longest] = [...this.#passes]
      .map(({ key, progressedMs }) => ({ loop: this.#name, key, forMs: nowMs - progressedMs }))
      .sort((a, b) => b.forMs - a.forMs);
    return longest !== undefined && longest.forMs > this.#limitMs ? longest : undefined;
  }
}
