// SPDX-License-Identifier: Apache-2.0

import type { ServerResponse } from "node:http";

interface Reservation {
  readonly amount: number;
  readonly admit: () => void;
}

export class Budget {
  readonly #maximum: number;
  readonly #queue = new Set<Reservation>();
  #spent = 0;

  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  get isSpent(): boolean {
    return this.#spent >= this.#maximum;
  }

  /** Spends even more than is left, for amounts that cannot be refused. */
  spend(amount: number): void {
    this.#spent += amount;
  }

  release(amount: number): void {
    this.#spent -= amount;
    this.#admitWaiting();
  }

  /** An amount above the maximum waits until nothing else is spent. Returns false if `signal` is aborted first. */
  async reserve(amount: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) {
      return false;
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiting: Reservation = {
      amount,
      admit: () => {
        resolve(true);
      },
    };
    const cancel = (): void => {
      if (this.#queue.delete(waiting)) {
        resolve(false);
        this.#admitWaiting();
      }
    };
    signal.addEventListener("abort", cancel);
    this.#queue.add(waiting);
    this.#admitWaiting();
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  #admitWaiting(): void {
    for (const waiting of this.#queue) {
      if (this.#spent > 0 && this.#spent + waiting.amount > this.#maximum) {
        return;
      }
      this.#queue.delete(waiting);
      this.#spent += waiting.amount;
      waiting.admit();
    }
  }
}

/** Smaller amounts are not reserved. */
const UNCOUNTED_MAX = 16 * 1024;

/** Returns undefined if the client disconnects before there is room. */
export async function withReserved<T>(
  budget: Budget,
  amount: number,
  response: ServerResponse,
  work: () => Promise<T>,
): Promise<T | undefined> {
  if (amount <= UNCOUNTED_MAX) {
    return work();
  }
  const disconnected = new AbortController();
  const onClose = (): void => {
    disconnected.abort();
  };
  response.once("close", onClose);
  try {
    if (response.destroyed || !(await budget.reserve(amount, disconnected.signal))) {
      return undefined;
    }
    return await work().finally(() => {
      budget.release(amount);
    });
  } finally {
    response.off("close", onClose);
  }
}
