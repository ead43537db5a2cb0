// SPDX-License-Identifier: Apache-2.0
// Limits of memory, connections and time for one user.
import type { Socket } from "node:net";
import { Strangers } from "@patchbay/core/strangers";
import { tooManyRequests } from "../meta/status.ts";
import { Budget } from "./budget.ts";

/** How much one user may take of memory, connections and time. */
export interface Limits {
  /** Milliseconds in which the head of a request must have come, and a connection must have said whom it is for. */
  readonly headersMs: number;
  /** Milliseconds in which a whole request must have come. */
  readonly requestMs: number;
  /** Milliseconds after which an answer that nobody reads is cut off. */
  readonly unreadMs: number;
  /** Connections by which nobody is known yet; the oldest gives way to a new one. */
  readonly strangers: number;
  /** Connections of one user. */
  readonly connections: number;
  /** Open watches of one user. */
  readonly watches: number;
  /** Bytes of bodies of one user that are worked on at once. */
  readonly receivedBytes: number;
  /** Bytes that one user has asked for and not taken: of answers, and the same of watches. */
  readonly waitingBytes: number;
}

const MIB = 1024 * 1024;

/** Generous: the busiest of Patchbay's own components has ten watches and a dozen connections. */
export const LIMITS: Limits = {
  headersMs: 10_000,
  requestMs: 60_000,
  unreadMs: 30_000,
  strangers: 512,
  connections: 1500,
  watches: 1000,
  receivedBytes: 32 * MIB,
  waitingBytes: 32 * MIB,
};

/** One user's share. */
class Share {
  /** Bodies that are worked on. */
  readonly received: Budget;
  /** Answers that are not taken yet. */
  readonly answers: Budget;
  /** The same of watches: whoever does not read these is answered all the same. */
  readonly events: Budget;
  readonly #limits: Limits;
  readonly #connections = new Set<Socket>();
  #watches = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.received = new Budget(limits.receivedBytes);
    this.answers = new Budget(limits.waitingBytes);
    this.events = new Budget(limits.waitingBytes);
  }

  /** Counts a connection until it is closed. Throws a StatusError 429 for one too many. */
  addConnection(socket: Socket): void {
    if (this.#connections.has(socket) || socket.destroyed) {
      return;
    }
    if (this.#connections.size >= this.#limits.connections) {
      throw tooManyRequests("too many connections of this user");
    }
    this.#connections.add(socket);
    socket.once("close", () => this.#connections.delete(socket));
  }

  /** Counts a watch; gives what ends the counting. Throws a StatusError 429 for one too many. */
  addWatch(): () => void {
    if (this.#watches >= this.#limits.watches) {
      throw tooManyRequests("too many watches of this user");
    }
    this.#watches += 1;
    return () => {
      this.#watches -= 1;
    };
  }
}

/** The shares of all users, by name, and connections that are nobody's yet. */
export class Shares {
  readonly #limits: Limits;
  readonly #shares = new Map<string, Share>();
  readonly #strangers: Strangers;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#strangers = new Strangers(limits.strangers);
  }

  /** A connection by which nobody is known; the oldest of too many is cut off. */
  addStranger(socket: Socket): void {
    this.#strangers.add(socket);
  }

  /** Somebody is known by a connection now. Throws a StatusError 429 where they have too many. */
  addConnection(user: string, socket: Socket): void {
    this.of(user).addConnection(socket);
    this.#strangers.know(socket);
  }

  of(user: string): Share {
    const share = this.#shares.get(user) ?? new Share(this.#limits);
    this.#shares.set(user, share);
    return share;
  }
}
