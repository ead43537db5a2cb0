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

  /** Spends the amount without waiting, even if the spent total then exceeds the maximum. */
  spend(amount: number): void {
    this.#spent += amount;
  }

  release(amount: number): void {
    this.#spent -= amount;
    this.#admitWaiting();
  }

  /** Waits until the amount fits, then spends it. An amount above the limit fits if nothing is spent. Returns false if `signal` aborts. */
  async reserve(amount: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) {
      return false;
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const reservation: Reservation = {
      amount,
      admit: () => {
        resolve(true);
      },
    };
    const cancel = (): void => {
      if (this.#queue.delete(reservation)) {
        resolve(false);
        this.#admitWaiting();
      }
    };
    signal.addEventListener("abort", cancel);
    this.#queue.add(reservation);
    this.#admitWaiting();
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  #admitWaiting(): void {
    for (const reservation of this.#queue) {
      if (this.#spent > 0 && this.#spent + reservation.amount > this.#maximum) {
        return;
      }
      this.#queue.delete(reservation);
      this.#spent += reservation.amount;
      reservation.admit();
    }
  }
}

/** Maximum amount that need not be reserved, in bytes. */
const UNRESERVED_MAX = 16 * 1024;

/**
 * Reserves the amount while `work` runs. Amounts up to {@link UNRESERVED_MAX} need no reservation. Returns undefined if the client
 * disconnects before the amount is reserved.
 */
export async function withReserved<T>(
  budget: Budget,
  amount: number,
  response: ServerResponse,
  work: () => Promise<T>,
): Promise<T | undefined> {
  if (amount <= UNRESERVED_MAX) {
    return work();
  }
  const disconnectController = new AbortController();
  const onClose = (): void => {
    disconnectController.abort();
  };
  response.once("close", onClose);
  try {
    if (response.destroyed || !(await budget.reserve(amount, disconnectController.signal))) {
      return undefined;
    }
    return await work().finally(() => {
      budget.release(amount);
    });
  } finally {
    response.off("close", onClose);
  }
}
