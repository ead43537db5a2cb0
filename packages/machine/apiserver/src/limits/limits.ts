// SPDX-License-Identifier: Apache-2.0
// How much may one client take? The numbers, in one place.

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
