// SPDX-License-Identifier: Apache-2.0
// Limits for each user, and for connections that are not authenticated yet.
import type { Socket } from "node:net";
import { UnauthenticatedConnections } from "@patchbay/base";
import { tooManyRequests } from "../meta/status.ts";
import { Budget } from "./budget.ts";

export interface Limits {
  /** Deadline for the TLS handshake, and for the headers of a request, in milliseconds. */
  readonly headersMs: number;
  readonly requestMs: number;
  /** Time after which a client that reads nothing is disconnected, in milliseconds. */
  readonly unreadMs: number;
  /** Maximum number of unauthenticated connections. Above this limit, the oldest connection is closed. */
  readonly unauthenticatedConnections: number;
  readonly connections: number;
  readonly watches: number;
  /** Maximum total size of the bodies of a user's requests in progress. */
  readonly receivedBytes: number;
  /** Maximum total size of a user's unread responses. Unread watch events have a separate limit of the same size. */
  readonly unsentBytes: number;
}

const MIB = 1024 * 1024;

/** Limits far above the usual load: Patchbay's busiest component has ten watches and a dozen connections. */
export const LIMITS: Limits = {
  headersMs: 10_000,
  requestMs: 60_000,
  unreadMs: 30_000,
  unauthenticatedConnections: 512,
  connections: 1500,
  watches: 1000,
  receivedBytes: 32 * MIB,
  unsentBytes: 32 * MIB,
};

class UserQuota {
  readonly receivedBudget: Budget;
  readonly responseBudget: Budget;
  /** Budget of watch events, which is separate so that unread watches do not block responses. */
  readonly watchBudget: Budget;
  readonly #limits: Limits;
  readonly #connections = new Set<Socket>();
  #watches = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.receivedBudget = new Budget(limits.receivedBytes);
    this.responseBudget = new Budget(limits.unsentBytes);
    this.watchBudget = new Budget(limits.unsentBytes);
  }

  /** Counts a connection until it closes. Throws a StatusError 429 above the limit. */
  addConnection(socket: Socket): void {
    if (this.#connections.has(socket) || socket.destroyed) {
      return;
    }
    if (this.#connections.size >= this.#limits.connections) {
      throw tooManyRequests("this user has too many connections");
    }
    this.#connections.add(socket);
    socket.once("close", () => this.#connections.delete(socket));
  }

  /** Counts a watch. Returns a function that decreases the count. Throws a StatusError 429 above the limit. */
  addWatch(): () => void {
    if (this.#watches >= this.#limits.watches) {
      throw tooManyRequests("this user has too many watches");
    }
    this.#watches += 1;
    return () => {
      this.#watches -= 1;
    };
  }
}

export class UserQuotas {
  readonly #limits: Limits;
  readonly #quotas = new Map<string, UserQuota>();
  readonly #unauthenticated: UnauthenticatedConnections;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#unauthenticated = new UnauthenticatedConnections(limits.unauthenticatedConnections);
  }

  addUnauthenticated(socket: Socket): void {
    this.#unauthenticated.add(socket);
  }

  /** Counts a connection of a user, and marks the connection as authenticated. Throws a StatusError 429 above the limit. */
  addConnection(user: string, socket: Socket): void {
    this.forUser(user).addConnection(socket);
    this.#unauthenticated.markAuthenticated(socket);
  }

  forUser(user: string): UserQuota {
    const quota = this.#quotas.get(user) ?? new UserQuota(this.#limits);
    this.#quotas.set(user, quota);
    return quota;
  }
}
