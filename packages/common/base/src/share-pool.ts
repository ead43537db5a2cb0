// SPDX-License-Identifier: Apache-2.0
// Divides a limited resource among tenants, and reserves a part for the system.
import type { Clock } from "./clock.ts";

export interface PoolLimits {
  readonly max: number;
  readonly share: number;
  /** Maximum amount that one system key uses. Default: `share`. */
  readonly systemShare?: number;
  /** Part of `max` that only system keys may use. Default: 0. */
  readonly reserve?: number;
}

const SYSTEM_PREFIX = "system ";
/** Namespaces of Kubernetes and Patchbay. Tenants cannot create pods or service accounts there. */
const SYSTEM_NAMESPACES: readonly string[] = ["kube-system", "patchbay"];
const SYSTEM_GROUPS: readonly string[] = ["system:masters", "system:nodes"];

interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

interface AuthenticatedUser {
  readonly name: string;
  readonly groups: readonly string[];
}

/** Keys of shares. Only keys of `system` may use the reserve of a pool. */
export const SHARE_KEYS = {
  system: (name: string): string => `${SYSTEM_PREFIX}${name}`,
  namespace: (namespace: string): string =>
    `${SYSTEM_NAMESPACES.includes(namespace) ? SYSTEM_PREFIX : ""}namespace ${namespace}`,
  object: ({ namespace, name }: ObjectName): string => `object ${namespace}/${name}`,
  /** Returns one key for all service accounts of a namespace, because a tenant can create any number of them. */
  user: ({ name, groups }: AuthenticatedUser): string => {
    const [, namespace] = /^system:serviceaccount:([^:]+):[^:]+$/.exec(name) ?? [];
    if (namespace !== undefined) return SHARE_KEYS.namespace(namespace);
    const isSystem = groups.some((group) => SYSTEM_GROUPS.includes(group));
    return `${isSystem ? SYSTEM_PREFIX : ""}user ${name}`;
  },
  /** The address of a client; unset for a client of a Unix socket. */
  peer: (address: string | undefined): string => `peer ${address ?? ""}`,
};

export function isSystemKey(key: string): boolean {
  return key.startsWith(SYSTEM_PREFIX);
}

function kindOf(key: string): "system" | "tenant" {
  return isSystemKey(key) ? "system" : "tenant";
}

/** Returns an amount to the pool. Further calls have no effect. */
export type Release = () => void;

export interface CancelSignal {
  readonly aborted: boolean;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

interface Waiter {
  readonly amount: number;
  readonly grant: (release: Release) => void;
}

interface Holder {
  used: number;
  readonly waiting: Set<Waiter>;
}

/** Why an amount is not available: the key has used its share, or all keys together have used the pool. */
export type Shortage = "share" | "pool";

/** A resource with a maximum, a share for each key, and a reserve for the system. Grants waiting keys in turn. */
export class SharePool {
  readonly #max: number;
  readonly #shares: { readonly system: number; readonly tenant: number };
  readonly #tenantMax: number;
  readonly #holders = new Map<string, Holder>();
  /** Keys whose first waiter fits into the key's share, in the order in which they are served. */
  readonly #ready = { system: new Set<string>(), tenant: new Set<string>() };
  readonly #used = { system: 0, tenant: 0 };
  #hasServedSystem = false;

  constructor({ max, share, systemShare = share, reserve = 0 }: PoolLimits) {
    this.#max = max;
    this.#shares = { system: systemShare, tenant: share };
    this.#tenantMax = max - reserve;
  }

  findShortage(key: string, amount = 1): Shortage | undefined {
    const clamped = this.#clamp(key, amount);
    if (!this.#fitsShare(key, clamped)) return "share";
    return this.#fitsPool(key, clamped) ? undefined : "pool";
  }

  /** Takes the amount if it is available now. An amount above the share counts as the whole share. */
  tryAcquire(key: string, amount = 1): Release | undefined {
    if (this.findShortage(key, amount) !== undefined) return undefined;
    return this.#take(key, this.#clamp(key, amount));
  }

  /** Waits until the amount is available, and takes it. Returns undefined if `signal` aborts the wait. */
  async acquire(key: string, amount = 1, signal?: CancelSignal): Promise<Release | undefined> {
    if (signal?.aborted === true) return undefined;
    const { promise, resolve } = Promise.withResolvers<Release | undefined>();
    const waiter: Waiter = { amount: this.#clamp(key, amount), grant: resolve };
    const cancel = (): void => {
      if (this.#holders.get(key)?.waiting.delete(waiter) !== true) return;
      this.#update(key);
      this.#grantWaiting();
      resolve(undefined);
    };
    signal?.addEventListener("abort", cancel);
    this.#holderOf(key).waiting.add(waiter);
    this.#update(key);
    this.#grantWaiting();
    try {
      return await promise;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }

  async run<T>(key: string, work: () => Promise<T>, amount = 1): Promise<T> {
    const release = await this.acquire(key, amount);
    try {
      return await work();
    } finally {
      release?.();
    }
  }

  /** Counts an amount that is in use already, even beyond the limits. The caller must `release` the same amount. */
  spend(key: string, amount: number): void {
    this.#add(key, amount);
    this.#update(key);
  }

  release(key: string, amount: number): void {
    this.#add(key, -amount);
    this.#update(key);
    this.#grantWaiting();
  }

  #clamp(key: string, amount: number): number {
    const max = isSystemKey(key) ? this.#max : this.#tenantMax;
    return Math.min(amount, this.#shareOf(key), max);
  }

  #shareOf(key: string): number {
    return this.#shares[kindOf(key)];
  }

  #fitsShare(key: string, amount: number): boolean {
    return (this.#holders.get(key)?.used ?? 0) + amount <= this.#shareOf(key);
  }

  #fitsPool(key: string, amount: number): boolean {
    const { system, tenant } = this.#used;
    return isSystemKey(key)
      ? system + Math.min(tenant, this.#tenantMax) + amount <= this.#max
      : tenant + amount <= Math.min(this.#tenantMax, this.#max - system);
  }

  #holderOf(key: string): Holder {
    const holder = this.#holders.get(key) ?? { used: 0, waiting: new Set() };
    this.#holders.set(key, holder);
    return holder;
  }

  /** Counts at most the key's share for the pool, so that a key beyond its share takes nothing from others. */
  #add(key: string, amount: number): void {
    const holder = this.#holderOf(key);
    const share = this.#shareOf(key);
    const before = Math.min(holder.used, share);
    holder.used += amount;
    this.#used[kindOf(key)] += Math.min(holder.used, share) - before;
  }

  #take(key: string, amount: number): Release {
    this.#add(key, amount);
    this.#update(key);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.release(key, amount);
    };
  }

  /** Adds the key to the ready keys or removes it, and forgets a key that uses nothing. */
  #update(key: string): void {
    const ready = this.#ready[kindOf(key)];
    const holder = this.#holderOf(key);
    const [waiter] = holder.waiting;
    if (waiter !== undefined && this.#fitsShare(key, waiter.amount)) ready.add(key);
    else ready.delete(key);
    if (waiter === undefined && holder.used === 0) this.#holders.delete(key);
  }

  #grantWaiting(): void {
    for (let key = this.#nextKey(); key !== undefined; key = this.#nextKey()) {
      const { waiting } = this.#holderOf(key);
      const [waiter] = waiting;
      if (waiter === undefined) return;
      waiting.delete(waiter);
      this.#hasServedSystem = isSystemKey(key);
      this.#ready[kindOf(key)].delete(key);
      waiter.grant(this.#take(key, waiter.amount));
    }
  }

  /** Returns the key to serve next. The system is served at least every second time. A large amount is not overtaken by a smaller one. */
  #nextKey(): string | undefined {
    const [system] = this.#ready.system;
    const [tenant] = this.#ready.tenant;
    const candidates = this.#hasServedSystem ? [tenant, system] : [system, tenant];
    return candidates.find((key) => key !== undefined && this.#fitsPool(key, this.#firstOf(key)));
  }

  #firstOf(key: string): number {
    const [waiter] = this.#holderOf(key).waiting;
    return waiter?.amount ?? 0;
  }
}

/** Takes one from each pool under its key. Returns undefined, and takes nothing, if one of them has none left. */
export function tryAcquireAll(
  claims: readonly (readonly [pool: SharePool, key: string])[],
): Release | undefined {
  const releases = claims.map(([pool, key]) => pool.tryAcquire(key));
  const releaseAll = (): void => {
    for (const release of releases) release?.();
  };
  if (!releases.includes(undefined)) return releaseAll;
  releaseAll();
  return undefined;
}

export interface Rate {
  /** How often a key may proceed at once after a pause. */
  readonly burst: number;
  readonly perSecond: number;
}

export interface RateLimiterDeps {
  readonly clock: Clock;
  readonly stop: AbortSignal;
}

/** Limits how often each key proceeds. Keys of the system are not limited. Source: generic cell rate algorithm, ITU-T I.371. */
export class RateLimiter {
  readonly #intervalMs: number;
  readonly #toleranceMs: number;
  readonly #deps: RateLimiterDeps;
  /** For each key, the time from which the whole burst is available. A key moves to the end when it proceeds. */
  readonly #restoredMs = new Map<string, number>();
  readonly #turns = new SharePool({ max: Infinity, share: 1 });

  constructor({ burst, perSecond }: Rate, deps: RateLimiterDeps) {
    this.#intervalMs = 1000 / perSecond;
    this.#toleranceMs = (burst - 1) * this.#intervalMs;
    this.#deps = deps;
  }

  findWait(key: string): number {
    const restoredMs = this.#restoredMs.get(key) ?? 0;
    return Math.max(0, restoredMs - this.#toleranceMs - this.#deps.clock.monotonicMs());
  }

  /** Counts, if the key may proceed now. Otherwise returns the milliseconds until then. */
  tryProceed(key: string): number {
    const waitMs = this.findWait(key);
    if (waitMs === 0) this.spend(key, 1);
    return waitMs;
  }

  /** Counts an amount even beyond the burst. Later calls of the key wait for it. */
  spend(key: string, amount: number): void {
    if (isSystemKey(key)) return;
    const nowMs = this.#deps.clock.monotonicMs();
    for (const [oldest, restoredMs] of this.#restoredMs) {
      if (restoredMs > nowMs) break;
      this.#restoredMs.delete(oldest);
    }
    const restoredMs = Math.max(this.#restoredMs.get(key) ?? 0, nowMs);
    this.#restoredMs.delete(key);
    this.#restoredMs.set(key, restoredMs + amount * this.#intervalMs);
  }

  /** Waits until the key may proceed, in the order of the calls. Returns false if `signal` or `stop` is aborted first. */
  async proceed(key: string, signal: CancelSignal): Promise<boolean> {
    if (isSystemKey(key)) return true;
    const endTurn = await this.#turns.acquire(key, 1, signal);
    const { clock, stop } = this.#deps;
    try {
      while (!signal.aborted) {
        const waitMs = this.tryProceed(key);
        if (waitMs === 0) return true;
        const isStopped = await clock.sleep(waitMs, stop).then(
          () => false,
          () => true,
        );
        if (isStopped) return false;
      }
      return false;
    } finally {
      endTurn?.();
    }
  }
}

interface Closable {
  once(event: "close", listener: () => void): unknown;
  off(event: "close", listener: () => void): unknown;
}

/** Returns a signal that is aborted when the connection or response closes. */
export function signalClose(closable: Closable): CancelSignal {
  let aborted = false;
  closable.once("close", () => {
    aborted = true;
  });
  return {
    get aborted() {
      return aborted;
    },
    addEventListener: (_type, listener) => {
      closable.once("close", listener);
    },
    removeEventListener: (_type, listener) => {
      closable.off("close", listener);
    },
  };
}
