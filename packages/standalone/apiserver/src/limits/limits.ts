// SPDX-License-Identifier: Apache-2.0
// Limits for each user.
import type { Socket } from "node:net";
import { UnauthenticatedConnections } from "@patchbay/base";
import { tooManyRequests } from "../meta/status.ts";
import { Budget } from "./budget.ts";

export interface Limits {
  /** Deadline for the TLS handshake, and for the headers of a request. */
  readonly headersMs: number;
  readonly requestMs: number;
  /** Clients that read nothing for this long are disconnected. */
  readonly unreadMs: number;
  /** Unauthenticated connections. Above the limit, the oldest is closed. */
  readonly unauthenticatedConnections: number;
  readonly connections: number;
  readonly watches: number;
  /** Request bodies in progress. */
  readonly receivedBytes: number;
  /** Responses that are not read yet; the same again for watch events. */
  readonly unsentBytes: number;
}

const MIB = 1024 * 1024;

/** Generous: Patchbay's busiest component has ten watches and a dozen connections. */
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
  readonly received: Budget;
  readonly responses: Budget;
  /** Separate, so that unread watches do not block responses. */
  readonly events: Budget;
  readonly #limits: Limits;
  readonly #connections = new Set<Socket>();
  #watches = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.received = new Budget(limits.receivedBytes);
    this.responses = new Budget(limits.unsentBytes);
    this.events = new Budget(limits.unsentBytes);
  }

  /** Throws a StatusError 429 above the limit. */
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

  /** Returns a function that ends the count. Throws a StatusError 429 above the limit. */
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

  /** Throws a StatusError 429 above the limit. */
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
