// SPDX-License-Identifier: Apache-2.0
// Repeats attacks in parallel, and counts their results.
import { setTimeout as delay } from "node:timers/promises";

/** Pause after a lost connection: a remote client needs a round trip for a new one. */
const RECONNECT_MS = 10;

export type Note = (result: string) => void;
export type Attempt = (note: Note, worker: number) => Promise<void>;

/** Number of attempts of each attack by result: an HTTP status, an error code, or for connections `tried` and `open`. A limited one stays `tried` for minutes. */
export type Counts = Readonly<Record<string, Readonly<Record<string, number>>>>;

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}

export class AttackLoop {
  readonly #names: readonly string[];
  readonly #results = new Map<string, Map<string, number>>();
  readonly #waiting: (() => void)[] = [];
  #isOver = false;

  /** @param names - attacks to run; empty: all */
  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** Starts workers that repeat an attack. */
  start(name: string, workers: number, attempt: Attempt): void {
    if (this.#names.length > 0 && !this.#names.includes(name)) return;
    const results = new Map<string, number>();
    this.#results.set(name, results);
    const note: Note = (result) => {
      results.set(result, (results.get(result) ?? 0) + 1);
      this.#wake();
    };
    for (let worker = 0; worker < workers; worker += 1) {
      void this.#repeat(() => attempt(note, worker), note);
    }
  }

  /** Resolves when each attack that was started has a result. */
  async begun(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      this.#wake();
    });
  }

  #wake(): void {
    if ([...this.#results.values()].some(({ size }) => size === 0)) return;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  stop(): Counts {
    this.#isOver = true;
    const entries = [...this.#results].map(
      ([name, results]) => [name, Object.fromEntries(results)] as const,
    );
    return Object.fromEntries(entries);
  }

  async #repeat(attempt: () => Promise<void>, note: Note): Promise<void> {
    while (!this.#isOver) {
      try {
        await attempt();
      } catch (error) {
        note(codeOf(error));
        await delay(RECONNECT_MS);
      }
    }
  }
}
