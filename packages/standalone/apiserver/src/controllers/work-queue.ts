// SPDX-License-Identifier: Apache-2.0
import { messageOf, type Clock, type Logger } from "@patchbay/base";

const PARALLEL_MAX = 8;
const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 30_000;

interface QueueDeps {
  readonly name: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly stop: AbortSignal;
  readonly work: (key: string) => Promise<void>;
  readonly retryMaxMs?: number;
}

/** Queue of keys to process. A key that is added while it is being processed is processed again afterwards. */
export class WorkQueue {
  readonly #deps: QueueDeps;
  readonly #waitingKeys = new Set<string>();
  /** Waiting keys, oldest first. The first key is at index `#head`. */
  #order: string[] = [];
  #head = 0;
  readonly #workingKeys = new Set<string>();
  readonly #failureCounts = new Map<string, number>();
  #scheduled = false;

  constructor(deps: QueueDeps) {
    this.#deps = deps;
  }

  add(key: string): void {
    if (!this.#waitingKeys.has(key)) {
      this.#waitingKeys.add(key);
      this.#order.push(key);
    }
    this.#schedule();
  }

  /** Starts work on a few keys in each turn of the event loop, so that requests are served in between. */
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
    while (this.#head < end && this.#workingKeys.size < PARALLEL_MAX && !this.#deps.stop.aborted) {
      const key = this.#order[this.#head] ?? "";
      this.#head += 1;
      if (this.#workingKeys.has(key)) {
        this.#order.push(key);
      } else {
        this.#waitingKeys.delete(key);
        this.#workingKeys.add(key);
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
      this.#failureCounts.delete(key);
    } catch (error) {
      this.#deps.logger.debug("work failed", {
        component: this.#deps.name,
        key,
        err: messageOf(error),
      });
      void this.#retry(key);
    } finally {
      this.#workingKeys.delete(key);
      if (this.#waitingKeys.size > 0) {
        this.#schedule();
      }
    }
  }

  async #retry(key: string): Promise<void> {
    const failures = this.#failureCounts.get(key) ?? 0;
    this.#failureCounts.set(key, failures + 1);
    const delayMs = Math.min(this.#deps.retryMaxMs ?? RETRY_MAX_MS, RETRY_MIN_MS * 2 ** failures);
    try {
      await this.#deps.clock.sleep(delayMs, this.#deps.stop);
      this.add(key);
    } catch {
      // The server is stopping.
    }
  }
}
