// SPDX-License-Identifier: Apache-2.0
import {
  type CancelSignal,
  type Clock,
  isSystemKey,
  type RateLimiterDeps,
  SharePool,
} from "@patchbay/base";
import type { User } from "../auth/user.ts";
import { shareKeyOf, type UserQuotas } from "./limits.ts";

/** Length of a tenant's pause after a long write, as a multiple of the write's duration. */
const PAUSE_FACTOR = 7;

/** Queue for long work. Lets one caller proceed in each turn of the event loop, and alternates between users. */
export class FairQueue {
  readonly #turns = new SharePool({ max: 1, share: 1 });
  readonly #pauses = new SharePool({ max: Infinity, share: 1 });
  readonly #deps: RateLimiterDeps;

  constructor(deps: RateLimiterDeps) {
    this.#deps = deps;
  }

  /** Resolves when the user may start work. The caller must start the work in the same turn of the event loop. */
  async waitForTurn(user: User): Promise<undefined> {
    const endTurn = await this.#turns.acquire(shareKeyOf(user));
    const { promise, resolve } = Promise.withResolvers<undefined>();
    setImmediate(() => {
      endTurn?.();
      resolve(undefined);
    });
    return promise;
  }

  /** Waits for a turn to write a long object. A tenant pauses after it, because each of the others' short requests waits behind a write. */
  async waitForWrite(user: User): Promise<void> {
    const key = shareKeyOf(user);
    const endPause = isSystemKey(key) ? undefined : await this.#pauses.acquire(key);
    await this.waitForTurn(user);
    if (endPause === undefined) return;
    const { clock, stop } = this.#deps;
    const startMs = clock.monotonicMs();
    setImmediate(() => {
      const pauseMs = PAUSE_FACTOR * (clock.monotonicMs() - startMs);
      if (pauseMs < 1) endPause();
      else void clock.sleep(pauseMs, stop).then(endPause, endPause);
    });
  }
}

/** Maximum length of a text that is processed without queueing, in characters. */
const LIGHT_LENGTH = 16 * 1024;

export function isHeavy(length: number): boolean {
  return length > LIGHT_LENGTH;
}

const SLICE_MS = 10;

export interface TimeSliceDeps {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly fairQueue: FairQueue;
  readonly quotas: Pick<UserQuotas, "waitForThread">;
}

export interface SliceOwner {
  readonly user: User;
  readonly closed: CancelSignal;
}

/** Time slice of long work. After each object, the caller must check `isUsedUp`, and await `waitForNext` if it is true. */
export class TimeSlice {
  readonly #deps: TimeSliceDeps;
  readonly #owner: SliceOwner;
  #startedMs: number;

  constructor(deps: TimeSliceDeps, owner: SliceOwner) {
    this.#deps = deps;
    this.#owner = owner;
    this.#startedMs = deps.clock.monotonicMs();
  }

  get isUsedUp(): boolean {
    return this.#deps.clock.monotonicMs() - this.#startedMs >= SLICE_MS;
  }

  /** The work must start in the same turn of the event loop. Returns false if the client disconnected. */
  async waitForNext(): Promise<boolean> {
    const { clock, fairQueue, quotas } = this.#deps;
    const { user, closed } = this.#owner;
    const mayProceed = await quotas.waitForThread(user, closed, () => fairQueue.waitForTurn(user));
    this.#startedMs = clock.monotonicMs();
    return mayProceed;
  }
}
