// SPDX-License-Identifier: Apache-2.0
// Keys that something has to be done about: each once, few at a time, again later where it failed.
import { messageOf } from "@patchbay/core/errors";
import type { Clock, Logger } from "@patchbay/ports";

const PARALLEL = 8;
const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 30_000;

/** What a queue works with. */
export interface QueueDeps {
  readonly name: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly stop: AbortSignal;
  /** Does what has to be done about a key; may be repeated. */
  readonly work: (key: string) => Promise<void>;
  /** Longest pause after failures; absent: half a minute. */
  readonly retryMaxMs?: number;
}

/** A queue of keys. */
export class WorkQueue {
  readonly #deps: QueueDeps;
  readonly #waiting = new Set<string>();
  readonly #working = new Set<string>();
  readonly #failures = new Map<string, number>();

  constructor(deps: QueueDeps) {
    this.#deps = deps;
  }

  /** Work on `key` soon; a key that is being worked on is worked on again. */
  add(key: string): void {
    this.#waiting.add(key);
    setImmediate(() => {
      this.#start();
    });
  }

  #start(): void {
    for (const key of this.#waiting) {
      if (this.#working.size >= PARALLEL || this.#deps.stop.aborted) {
        return;
      }
      if (!this.#working.has(key)) {
        this.#waiting.delete(key);
        this.#working.add(key);
        void this.#run(key);
      }
    }
  }

  async #run(key: string): Promise<void> {
    try {
      await this.#deps.work(key);
      this.#failures.delete(key);
    } catch (error) {
      this.#deps.logger.debug("work failed", {
        component: this.#deps.name,
        key,
        err: messageOf(error),
      });
      void this.#retry(key);
    } finally {
      this.#working.delete(key);
      this.#start();
    }
  }

  async #retry(key: string): Promise<void> {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    const delayMs = Math.min(this.#deps.retryMaxMs ?? RETRY_MAX_MS, RETRY_MIN_MS * 2 ** failures);
    try {
      await this.#deps.clock.sleep(delayMs, this.#deps.stop);
      this.add(key);
    } catch {
      // The server stops.
    }
  }
}
