// SPDX-License-Identifier: Apache-2.0
// How much may be held at once? Whoever wants more waits, in the order in which they came.

import type { ServerResponse } from "node:http";

interface Waiting {
  readonly amount: number;
  readonly enter: () => void;
}

/** An amount that is spent and given back. */
export class Budget {
  readonly #maximum: number;
  readonly #queue = new Set<Waiting>();
  #spent = 0;

  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  /** Whether nothing is left. */
  get isSpent(): boolean {
    return this.#spent >= this.#maximum;
  }

  /** Spends it even where it is not there: what cannot be kept from happening is counted all the same. */
  spend(amount: number): void {
    this.#spent += amount;
  }

  giveBack(amount: number): void {
    this.#spent -= amount;
    this.#letIn();
  }

  /** Spends it as soon as it is there, or everything is given back. False where `signal` was aborted before: then nothing is spent. */
  async reserve(amount: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) {
      return false;
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiting: Waiting = {
      amount,
      enter: () => {
        resolve(true);
      },
    };
    const leave = (): void => {
      // Whoever has entered is no longer there.
      if (this.#queue.delete(waiting)) {
        resolve(false);
        this.#letIn();
      }
    };
    signal.addEventListener("abort", leave);
    this.#queue.add(waiting);
    this.#letIn();
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  #letIn(): void {
    for (const waiting of this.#queue) {
      if (this.#spent > 0 && this.#spent + waiting.amount > this.#maximum) {
        return;
      }
      this.#queue.delete(waiting);
      this.#spent += waiting.amount;
      waiting.enter();
    }
  }
}

/** Small amounts are not worth waiting for. */
const SMALL = 16 * 1024;

/** Does `work` with a part of a budget, which is given back at its end; undefined where the client leaves before there is room. */
export async function withReserved<T>(
  budget: Budget,
  wanted: { readonly amount: number; readonly response: ServerResponse },
  work: () => Promise<T>,
): Promise<T | undefined> {
  const { amount, response } = wanted;
  if (amount <= SMALL) {
    return work();
  }
  const gone = new AbortController();
  const leave = (): void => {
    gone.abort();
  };
  response.once("close", leave);
  try {
    if (response.destroyed || !(await budget.reserve(amount, gone.signal))) {
      return undefined;
    }
    return await work().finally(() => {
      budget.giveBack(amount);
    });
  } finally {
    response.off("close", leave);
  }
}
