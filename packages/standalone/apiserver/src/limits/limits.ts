// SPDX-License-Identifier: Apache-2.0
// Limits for each user and for all users together, and for connections that are not authenticated yet.
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import {
  type CancelSignal,
  type Clock,
  ConnectionPool,
  isSystemKey,
  type PoolLimits,
  type Rate,
  RateLimiter,
  type RateLimiterDeps,
  type Release,
  SHARE_KEYS,
  SharePool,
  signalClose,
} from "@patchbay/base";
import { ANONYMOUS, type User } from "../auth/user.ts";
import { type StatusError, tooManyRequests } from "../meta/status.ts";

export interface Limits {
  readonly headersMs: number;
  readonly requestMs: number;
  /** Time after which a client that reads nothing is disconnected, in milliseconds. */
  readonly unreadMs: number;
  /** Maximum number of unauthenticated connections, of which one address may have half. Above a limit, the oldest is closed. */
  readonly unauthenticatedConnections: number;
  readonly requests: Rate;
  /** Milliseconds of the server's only thread. */
  readonly thread: Rate;
  readonly handshakes: Rate;
  readonly connections: PoolLimits;
  readonly watches: PoolLimits;
  readonly receivedBytes: PoolLimits;
  /** Total size of unread responses. Unread watch events have a separate limit of the same size. */
  readonly unsentBytes: PoolLimits;
}

const MIB = 1024 * 1024;
const BYTES: PoolLimits = { max: 160 * MIB, share: 16 * MIB, reserve: 64 * MIB };

/** Limits far above the usual load: Patchbay's busiest component has ten watches and a dozen connections. */
export const LIMITS: Limits = {
  headersMs: 10_000,
  requestMs: 60_000,
  unreadMs: 30_000,
  unauthenticatedConnections: 512,
  requests: { burst: 200, perSecond: 30 },
  thread: { burst: 500, perSecond: 150 },
  handshakes: { burst: 100, perSecond: 15 },
  connections: { max: 8192, share: 1024, reserve: 2048 },
  watches: { max: 8192, share: 1000, reserve: 2048 },
  receivedBytes: BYTES,
  unsentBytes: BYTES,
};

/** Returns the key under which the user's requests count. With impersonation, this is the key of the impersonating user. */
export function shareKeyOf(user: User): string {
  return SHARE_KEYS.user(user.impersonator ?? user);
}

export class UserQuotas {
  readonly receivedBytes: SharePool;
  readonly unsentBytes: SharePool;
  /** Pool of watch events, which is separate so that unread watches do not block responses. */
  readonly unsentEvents: SharePool;
  readonly #requests: RateLimiter;
  readonly #thread: RateLimiter;
  readonly #waits = new SharePool({ max: Infinity, share: 1 });
  readonly #clock: Clock;
  /** Keys that are served in this turn of the event loop, and when that began. */
  readonly #servedSinceMs = new Map<string, number>();
  readonly #connections: SharePool;
  readonly #countedSockets = new WeakSet<Socket>();
  readonly #watches: SharePool;
  readonly #unauthenticated: ConnectionPool;

  constructor(limits: Limits, deps: RateLimiterDeps) {
    const { unauthenticatedConnections: max } = limits;
    this.receivedBytes = new SharePool(limits.receivedBytes);
    this.unsentBytes = new SharePool(limits.unsentBytes);
    this.unsentEvents = new SharePool(limits.unsentBytes);
    this.#requests = new RateLimiter(limits.requests, deps);
    this.#thread = new RateLimiter(limits.thread, deps);
    this.#clock = deps.clock;
    this.#connections = new SharePool(limits.connections);
    this.#watches = new SharePool(limits.watches);
    this.#unauthenticated = new ConnectionPool({ max, share: Math.ceil(max / 2) });
  }

  addUnauthenticated(socket: Socket): void {
    this.#unauthenticated.add(socket);
  }

  /** Counts a connection of a user until it closes, and marks it as authenticated. Throws a StatusError 429 above the limit. */
  addConnection(user: User, socket: Socket): void {
    if (!this.#countedSockets.has(socket) && !socket.destroyed) {
      const release = acquireOne(this.#connections, user, "connections");
      this.#countedSockets.add(socket);
      socket.once("close", release);
    }
    this.#unauthenticated.remove(socket);
  }

  /** Waits until a request of the user may be served. Unauthenticated clients count by address. Returns false if the response closes first. */
  async waitForRate(user: User, response: ServerResponse): Promise<boolean> {
    const key =
      user === ANONYMOUS ? SHARE_KEYS.peer(response.req.socket.remoteAddress) : shareKeyOf(user);
    const closed = signalClose(response);
    const mayProceed =
      (await this.#requests.proceed(key, closed)) && (await this.#thread.proceed(key, closed));
    this.#countTurn(key);
    return mayProceed;
  }

  /** Waits until the user may use the thread, then for `turn`. The user's next wait ends when this turn's time is counted. Returns false if `closed` aborts. */
  async waitForThread(
    user: User,
    closed: CancelSignal,
    turn: () => Promise<unknown>,
  ): Promise<boolean> {
    const key = shareKeyOf(user);
    const endWait = isSystemKey(key) ? undefined : await this.#waits.acquire(key, 1, closed);
    const mayProceed = await this.#thread.proceed(key, closed);
    if (mayProceed) {
      await turn();
      this.#countTurn(key);
    }
    if (endWait !== undefined) setImmediate(endWait);
    return mayProceed && !closed.aborted;
  }

  hasUsedThread(user: User): boolean {
    return this.#thread.findWait(shareKeyOf(user)) > 0;
  }

  countTurn(user: User): void {
    this.#countTurn(shareKeyOf(user));
  }

  #countTurn(key: string): void {
    if (isSystemKey(key) || this.#servedSinceMs.has(key)) return;
    if (this.#servedSinceMs.size === 0) {
      setImmediate(() => {
        this.#endTurn();
      });
    }
    this.#servedSinceMs.set(key, this.#clock.monotonicMs());
  }

  #endTurn(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [key, sinceMs] of this.#servedSinceMs) this.#thread.spend(key, nowMs - sinceMs);
    this.#servedSinceMs.clear();
  }

  /** Counts a watch. Returns a function that decreases the count. Throws a StatusError 429 above the limit. */
  addWatch(user: User): Release {
    return acquireOne(this.#watches, user, "watches");
  }
}

function acquireOne(pool: SharePool, user: User, what: string): Release {
  const key = shareKeyOf(user);
  const shortage = pool.findShortage(key);
  const release = pool.tryAcquire(key);
  if (release === undefined) throw shortageError(shortage, what);
  return release;
}

function shortageError(shortage: ReturnType<SharePool["findShortage"]>, what: string): StatusError {
  return tooManyRequests(
    shortage === "pool"
      ? `all users together have too many ${what}`
      : `this user has too many ${what}`,
  );
}

const UNRESERVED_MAX_BYTES = 16 * 1024;

/** Reserves the amount for the user while `work` runs. Returns undefined if the client disconnects before the amount is reserved. */
export async function withReserved<T>(
  pool: SharePool,
  { user, amount }: { readonly user: User; readonly amount: number },
  response: ServerResponse,
  work: () => Promise<T>,
): Promise<T | undefined> {
  if (amount <= UNRESERVED_MAX_BYTES) {
    return work();
  }
  const disconnectController = new AbortController();
  const onClose = (): void => {
    disconnectController.abort();
  };
  response.once("close", onClose);
  try {
    if (response.destroyed) return undefined;
    const release = await pool.acquire(shareKeyOf(user), amount, disconnectController.signal);
    return release === undefined ? undefined : await work().finally(release);
  } finally {
    response.off("close", onClose);
  }
}
