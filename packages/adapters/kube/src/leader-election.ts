// SPDX-License-Identifier: Apache-2.0
// Leader election with a Lease, and a store in which only the leader can write.
import { apiVersionOf, LEASES } from "@patchbay/api";
import type { Lease } from "@patchbay/api/kubernetes";
import { AppError, isAppError, messageOf, type Clock, type Logger } from "@patchbay/base";
import type { Cache, CallOptions, ObjectKey, Store } from "@patchbay/core/interfaces";
import { CALL_TIMEOUT_MS } from "./objects/object-store.ts";
import { printMicroTime, parseVersion } from "./objects/object-metadata.ts";

/** Seconds without renewal until another process can lead. Far below client-go's 15 s, because no NIC is plugged while no process leads. */
const LEASE_SECONDS = 4;
const RENEW_MS = 1_500;
const RETRY_MS = 500;
/** Milliseconds for which the leader may write after it began a renewal. The Lease expires a second later. */
const WRITE_WINDOW_MS = (LEASE_SECONDS - 1) * 1000;

interface ElectorDeps {
  readonly key: ObjectKey;
  /** Unique name of this process, which is never reused. */
  readonly identity: string;
  readonly store: Store;
  readonly leases: Cache<Lease>;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Elector {
  holder(): string | undefined;
  isLeading(): boolean;
  /** Returns the milliseconds for which this process may write. Returns 0 if this process does not lead. */
  remainingWriteMs(): number;
  /** Resolves when this process leads. Rejects with the signal's reason if the signal is aborted first. */
  campaign(signal: AbortSignal): Promise<void>;
  /**
   * Renews the Lease until the signal is aborted. Retries failed renewals until another process leads.
   * @throws AppError with KUBE_LEASE_LOST if another process leads
   */
  hold(signal: AbortSignal): Promise<void>;
  /** Releases the Lease, so that another process can acquire the Lease immediately. */
  release(): Promise<void>;
}

class LeaseElector implements Elector {
  readonly #deps: ElectorDeps;
  #observed: ObservedLease;
  /** Monotonic time, in milliseconds, at which the last successful renewal started. */
  #renewedMs: number | undefined;
  #onChange: () => void = () => undefined;

  constructor(deps: ElectorDeps) {
    this.#deps = deps;
    this.#observed = { lease: deps.leases.find(deps.key), sinceMs: deps.clock.monotonicMs() };
    deps.leases.onChange((change) => {
      this.#observe(change.kind === "deleted" ? undefined : change.current);
    });
  }

  holder(): string | undefined {
    return findHolder(this.#observed.lease);
  }

  isLeading(): boolean {
    return this.remainingWriteMs() > 0;
  }

  remainingWriteMs(): number {
    if (this.#renewedMs === undefined || this.holder() !== this.#deps.identity) return 0;
    return Math.max(
      0,
      Math.floor(this.#renewedMs + WRITE_WINDOW_MS - this.#deps.clock.monotonicMs()),
    );
  }

  async campaign(signal: AbortSignal): Promise<void> {
    const { clock, log, identity } = this.#deps;
    let loggedHolder: string | undefined;
    while (!(await this.#tryAcquire(signal))) {
      const holder = this.holder();
      if (holder !== loggedHolder) log.info("standing by", { leader: holder ?? "none yet" });
      loggedHolder = holder;
      const claim = decideClaim(this.#observed, clock.monotonicMs());
      await this.#waitForChange(claim.kind === "wait" ? claim.ms : RETRY_MS, signal);
    }
    log.info("leading", { identity });
  }

  async hold(signal: AbortSignal): Promise<void> {
    let waitMs = this.#renewInMs();
    while (!signal.aborted) {
      const hasEnded = await this.#waitForChange(waitMs, signal).then(
        () => false,
        () => true, // Only an abort rejects the promise.
      );
      if (hasEnded) return;
      const holder = this.holder();
      if (holder !== undefined && holder !== this.#deps.identity) {
        throw new AppError("KUBE_LEASE_LOST", { leader: holder });
      }
      const hasFailed = this.#renewInMs() === 0 && !(await this.#write());
      waitMs = hasFailed ? RETRY_MS : this.#renewInMs();
    }
  }

  async release(): Promise<void> {
    const { lease } = this.#observed;
    if (lease === undefined || findHolder(lease) !== this.#deps.identity) return;
    this.#renewedMs = undefined;
    try {
      await this.#deps.store.update(LEASES, buildReleasedLease(lease));
    } catch (error) {
      this.#deps.log.warn("the lease was not released", { reason: messageOf(error) });
    }
  }

  #renewInMs(): number {
    const dueMs = (this.#renewedMs ?? -Infinity) + RENEW_MS;
    return Math.max(0, dueMs - this.#deps.clock.monotonicMs());
  }

  async #tryAcquire(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) throw new Error(messageOf(signal.reason));
    const claim = decideClaim(this.#observed, this.#deps.clock.monotonicMs());
    return claim.kind === "take" && (await this.#write());
  }

  /** Writes the Lease with this process as its holder. Returns false if the write fails. */
  async #write(): Promise<boolean> {
    const { store, clock, key, identity, log } = this.#deps;
    const { lease } = this.#observed;
    const startedMs = clock.monotonicMs();
    const heldLease = buildHeldLease(lease, { key, identity, nowMs: clock.now() });
    try {
      const options = { timeoutMs: RENEW_MS };
      const write = lease === undefined ? store.create.bind(store) : store.update.bind(store);
      this.#observe(await write(LEASES, heldLease, options));
      this.#renewedMs = startedMs;
      return true;
    } catch (error) {
      if (isAppError(error, "KUBE_CONFLICT") || isAppError(error, "KUBE_ALREADY_EXISTS")) {
        await this.#refresh();
      } else log.warn("the lease cannot be written", { reason: messageOf(error) });
      return false;
    }
  }

  /** Reads the Lease after a conflict, because the watch may not have reported the conflicting version yet. */
  async #refresh(): Promise<void> {
    const { store, key } = this.#deps;
    const lease = await store.find(LEASES, key).catch(() => this.#observed.lease);
    this.#observe(lease);
  }

  /** Stores the observed Lease, unless a delayed watch reports an older version. */
  #observe(lease: Lease | undefined): void {
    const knownLease = this.#observed.lease;
    const isSameLease = knownLease?.metadata.uid === lease?.metadata.uid;
    if (isSameLease && knownLease && lease && parseVersion(lease) <= parseVersion(knownLease))
      return;
    this.#observed = { lease, sinceMs: this.#deps.clock.monotonicMs() };
    this.#onChange();
  }

  async #waitForChange(ms: number, signal: AbortSignal): Promise<void> {
    const finished = new AbortController();
    const leaseChange = new Promise<void>((resolve) => {
      this.#onChange = resolve;
    });
    const timer = this.#deps.clock.sleep(ms, AbortSignal.any([signal, finished.signal]));
    try {
      await Promise.race([leaseChange, timer]);
    } finally {
      timer.catch(() => undefined);
      finished.abort();
    }
  }
}

export function createElector(deps: ElectorDeps): Elector {
  return new LeaseElector(deps);
}

interface ObservedLease {
  readonly lease: Lease | undefined;
  /** Monotonic time, in milliseconds, at which this process first observed this version of the Lease. */
  readonly sinceMs: number;
}

type Claim =
  | { readonly kind: "take" }
  /** Another process leads. Unless renewed, its Lease expires in `ms` milliseconds. */
  | { readonly kind: "wait"; readonly ms: number };

export function findHolder(lease: Lease | undefined): string | undefined {
  const holder = lease?.spec?.holderIdentity ?? "";
  return holder === "" ? undefined : holder;
}

/**
 * Decides whether this process can acquire the Lease. Ignores the times in the Lease, because the leader's clock may differ
 * from this process's clock. Source: client-go tools/leaderelection
 */
export function decideClaim({ lease, sinceMs }: ObservedLease, nowMs: number): Claim {
  if (findHolder(lease) === undefined) return { kind: "take" };
  const seconds = lease?.spec?.leaseDurationSeconds ?? LEASE_SECONDS;
  const remainingMs = sinceMs + seconds * 1000 - nowMs;
  return remainingMs <= 0 ? { kind: "take" } : { kind: "wait", ms: remainingMs };
}

interface LeaseWriter {
  readonly key: ObjectKey;
  readonly identity: string;
  readonly nowMs: number;
}

/** Builds the Lease that this process writes to become or to remain the leader. */
export function buildHeldLease(
  lease: Lease | undefined,
  { key, identity, nowMs }: LeaseWriter,
): Lease {
  const isRenewed = findHolder(lease) === identity;
  const time = printMicroTime(nowMs);
  const { acquireTime = time, leaseTransitions = 0 } = lease?.spec ?? {};
  return {
    apiVersion: apiVersionOf(LEASES),
    kind: LEASES.kind,
    metadata: lease?.metadata ?? key,
    spec: {
      holderIdentity: identity,
      leaseDurationSeconds: LEASE_SECONDS,
      renewTime: time,
      acquireTime: isRenewed ? acquireTime : time,
      leaseTransitions: isRenewed || lease === undefined ? leaseTransitions : leaseTransitions + 1,
    },
  };
}

/** Builds a Lease without a holder, which the next leader can acquire immediately. */
export function buildReleasedLease(lease: Lease): Lease {
  return { ...lease, spec: { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1 } };
}

type RemainingTime = () => number;

/**
 * Wraps a store so that only the leader can write. Each write ends before the Lease expires, so that no write is in
 * flight when another process begins to lead.
 * @throws AppError with KUBE_NOT_LEADING, from each write
 */
export function createFencedStore(store: Store, readRemainingMs: RemainingTime): Store {
  const withDeadline = <O extends CallOptions>(options: O | undefined): O & CallOptions => {
    const remainingMs = readRemainingMs();
    if (remainingMs <= 0) throw new AppError("KUBE_NOT_LEADING", {});
    const timeoutMs = Math.min(options?.timeoutMs ?? CALL_TIMEOUT_MS, remainingMs);
    return { ...options, timeoutMs } as O & CallOptions;
  };
  return {
    find: (type, key, options) => store.find(type, key, options),
    list: (type, options) => store.list(type, options),
    create: async (type, object, options) => store.create(type, object, withDeadline(options)),
    update: async (type, object, options) => store.update(type, object, withDeadline(options)),
    patch: async (type, key, ...[patch, options]) =>
      store.patch(type, key, patch, withDeadline(options)),
    delete: async (type, key, options) => store.delete(type, key, withDeadline(options)),
  };
}
