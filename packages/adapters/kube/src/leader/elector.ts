// SPDX-License-Identifier: Apache-2.0
// One of several processes leads, by a Lease: campaigns for it, keeps it while it lives, gives it back at its end.
import { LEASES, type Lease } from "@patchbay/api";
import { AppError, isAppError, messageOf } from "@patchbay/core";
import type { Cache, Clock, Logger, ObjectKey, Store } from "@patchbay/core/ports";
import { versionOf } from "../objects/resource-version.ts";
import {
  claimOf,
  heldLease,
  holderOf,
  LEASE_SECONDS,
  releasedLease,
  type SeenLease,
} from "./claim.ts";

/** Between two renewals, milliseconds. */
const RENEW_MS = 1_500;
/** After one that failed. */
const RETRY_MS = 500;
/** Writes end so long after the last renewal began: a second before another may lead. */
const WRITES_MS = (LEASE_SECONDS - 1) * 1000;

/** Where the Lease is, who this process is among those that want it, and how the Lease is seen and written. */
export interface ElectorDeps {
  readonly key: ObjectKey;
  /** No other process ever has the same. */
  readonly identity: string;
  readonly store: Store;
  /** Nothing but this Lease. */
  readonly leases: Cache<Lease>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What this process is among those that want to lead. */
export interface Elector {
  /** Who leads, as far as is known; undefined: nobody. */
  holder(): string | undefined;
  isLeading(): boolean;
  /** How long writes may be made, whole milliseconds; 0: not now. */
  writesLeftMs(): number;
  /** Resolves when this process leads; rejects with the signal's reason. */
  campaign(signal: AbortSignal): Promise<void>;
  /**
   * Renews the Lease until the signal is aborted. While the API server does not answer, nothing is written, and nothing
   * is given up either: nobody else can lead meanwhile.
   * @throws AppError with KUBE_LEASE_LOST when another one leads
   */
  hold(signal: AbortSignal): Promise<void>;
  /** Lets another one lead at once. */
  release(): Promise<void>;
}

class LeaseElector implements Elector {
  readonly #deps: ElectorDeps;
  #seen: SeenLease;
  /** When the last renewal that worked began, by the monotonic clock. */
  #renewedMs: number | undefined;
  /** Ends a wait for whatever happens to the Lease. */
  #changed: () => void = () => undefined;

  constructor(deps: ElectorDeps) {
    this.#deps = deps;
    this.#seen = { lease: deps.leases.find(deps.key), sinceMs: deps.clock.monotonicMs() };
    deps.leases.onChange((change) => {
      this.#see(change.kind === "deleted" ? undefined : change.current);
    });
  }

  holder(): string | undefined {
    return holderOf(this.#seen.lease);
  }

  isLeading(): boolean {
    return this.writesLeftMs() > 0;
  }

  writesLeftMs(): number {
    if (this.#renewedMs === undefined || this.holder() !== this.#deps.identity) return 0;
    return Math.max(0, Math.floor(this.#renewedMs + WRITES_MS - this.#deps.clock.monotonicMs()));
  }

  async campaign(signal: AbortSignal): Promise<void> {
    const { clock, log, identity } = this.#deps;
    let told: string | undefined;
    while (!(await this.#wasTaken(signal))) {
      const holder = this.holder();
      if (holder !== told) log.info("standing by", { leader: holder ?? "nobody yet" });
      told = holder;
      const claim = claimOf(this.#seen, clock.monotonicMs());
      await this.#changeOr(claim.kind === "wait" ? claim.ms : RETRY_MS, signal);
    }
    log.info("leading", { identity });
  }

  async hold(signal: AbortSignal): Promise<void> {
    let waitMs = this.#dueInMs();
    while (!signal.aborted) {
      const hasEnded = await this.#changeOr(waitMs, signal).then(
        () => false,
        () => true, // only the signal ends it so
      );
      if (hasEnded) return;
      const holder = this.holder();
      if (holder !== undefined && holder !== this.#deps.identity) {
        throw new AppError("KUBE_LEASE_LOST", { leader: holder });
      }
      const hasFailed = this.#dueInMs() === 0 && !(await this.#write());
      waitMs = hasFailed ? RETRY_MS : this.#dueInMs();
    }
  }

  async release(): Promise<void> {
    const { lease } = this.#seen;
    if (lease === undefined || holderOf(lease) !== this.#deps.identity) return;
    this.#renewedMs = undefined;
    try {
      await this.#deps.store.update(LEASES, releasedLease(lease));
    } catch (error) {
      this.#deps.log.warn("the lease was not given back", { reason: messageOf(error) });
    }
  }

  #dueInMs(): number {
    const dueMs = (this.#renewedMs ?? -Infinity) + RENEW_MS;
    return Math.max(0, dueMs - this.#deps.clock.monotonicMs());
  }

  async #wasTaken(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) throw new Error(messageOf(signal.reason));
    const claim = claimOf(this.#seen, this.#deps.clock.monotonicMs());
    return claim.kind === "take" && (await this.#write());
  }

  /** Writes the Lease as this process's own; whether that worked. Another's write in between is a conflict. */
  async #write(): Promise<boolean> {
    const { store, clock, key, identity, log } = this.#deps;
    const { lease } = this.#seen;
    const beganMs = clock.monotonicMs();
    const wanted = heldLease(lease, { key, identity, nowMs: clock.now() });
    try {
      const options = { timeoutMs: RENEW_MS };
      const write = lease === undefined ? store.create.bind(store) : store.update.bind(store);
      this.#see(await write(LEASES, wanted, options));
      this.#renewedMs = beganMs;
      return true;
    } catch (error) {
      if (isAppError(error, "KUBE_CONFLICT") || isAppError(error, "KUBE_ALREADY_EXISTS")) {
        await this.#look();
      } else log.warn("the lease cannot be written", { reason: messageOf(error) });
      return false;
    }
  }

  /** The watch may be behind what refused the write. */
  async #look(): Promise<void> {
    const { store, key } = this.#deps;
    const lease = await store.find(LEASES, key).catch(() => this.#seen.lease);
    this.#see(lease);
  }

  /** An older state that a watch tells late is none that came now. */
  #see(lease: Lease | undefined): void {
    const known = this.#seen.lease;
    const isSame = known?.metadata.uid === lease?.metadata.uid;
    if (isSame && known && lease && versionOf(lease) <= versionOf(known)) return;
    this.#seen = { lease, sinceMs: this.#deps.clock.monotonicMs() };
    this.#changed();
  }

  /** Until the Lease changes, but no longer than that. */
  async #changeOr(ms: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const changed = new Promise<void>((resolve) => {
      this.#changed = resolve;
    });
    const time = this.#deps.clock.sleep(ms, AbortSignal.any([signal, over.signal]));
    try {
      await Promise.race([changed, time]);
    } finally {
      time.catch(() => undefined); // nobody waits for it any more
      over.abort();
    }
  }
}

/** Makes this process one of those that may lead; `leases` has its first listing. */
export function createElector(deps: ElectorDeps): Elector {
  return new LeaseElector(deps);
}
