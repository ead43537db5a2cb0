// SPDX-License-Identifier: Apache-2.0
// Keys that something has to be done about: each once, few at a time, again later where it failed.
import { messageOf } from "@patchbay/core/errors";
import type { Clock, Logger } from "@patchbay/core/ports";

const PARALLEL = 8;
const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 30_000;

/** What is done about keys, how its failures are told apart from others' in the log, and when all ends. */
interface QueueDeps {
  readonly name: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly stop: AbortSignal;
  /** Does what has to be done about a key; may be repeated. */
  readonly work: (key: string) => Promise<void>;
  /** Longest pause after failures; absent: half a minute. */
  readonly retryMaxMs?: number;
}

/** Keys that wait for work; one that is added while it is worked on is worked on again. */
export class WorkQueue {
  readonly #deps: QueueDeps;
  readonly #waiting = new Set<string>();
  /** The keys of `#waiting` from `#head` on, the oldest first. */
  #order: string[] = [];
  #head = 0;
  readonly #working = new Set<string>();
  readonly #failures = new Map<string, number>();
  #scheduled = false;

  constructor(deps: QueueDeps) {
    this.#deps = deps;
  }

  /** Work on `key` soon; a key that is being worked on is worked on again. */
  add(key: string): void {
    if (!this.#waiting.has(key)) {
      this.#waiting.add(key);
      this.#order.push(key);
    }
    this.#schedule();
  }

  /** A few keys in each turn of the event loop: requests are served in between. */
  #schedule(): void {
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(() => {
        this.#scheduled = false;
        this.#start();
      });
    }
  }

  #start(): void {
    const end = this.#order.length;
    while (this.#head < end && this.#working.size < PARALLEL && !this.#deps.stop.aborted) {
      const key = this.#order[this.#head] ?? "";
      this.#head += 1;
      if (this.#working.has(key)) {
        this.#order.push(key);
      } else {
        this.#waiting.delete(key);
        this.#working.add(key);
        void this.#run(key);
      }
    }
    if (this.#head * 2 > this.#order.length) {
      this.#order = this.#order.slice(this.#head);
      this.#head = 0;
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
      if (this.#waiting.size > 0) {
        this.#schedule();
      }
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
