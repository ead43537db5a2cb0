// SPDX-License-Identifier: Apache-2.0
// May the Lease be taken? As client-go decides it: by when this process saw it change, never by the clock of another.
// Source: client-go tools/leaderelection.
import { apiVersionOf, LEASES, type Lease } from "@patchbay/api";
import type { ObjectKey } from "@patchbay/core/ports";
import { printMicroTime } from "../objects/time.ts";

/**
 * How long a leader that has died is believed in, seconds. client-go's 15 would leave NICs waiting for as long; each
 * second of it costs a leader nothing but one small write in one and a half.
 */
export const LEASE_SECONDS = 4;

/** The Lease as it was seen, and since when it has been so. */
export interface SeenLease {
  /** Undefined: there is none. */
  readonly lease: Lease | undefined;
  /** Time of this process's own monotonic clock, milliseconds. */
  readonly sinceMs: number;
}

/** What one that does not lead does next. */
export type Claim =
  | { readonly kind: "take" }
  /** Somebody leads; without a sign of life for so many milliseconds more, nobody does. */
  | { readonly kind: "wait"; readonly ms: number };

/** Who leads by what is written; undefined: nobody. */
export function holderOf(lease: Lease | undefined): string | undefined {
  const holder = lease?.spec?.holderIdentity ?? "";
  return holder === "" ? undefined : holder;
}

/** Whether the Lease may be taken at that time. */
export function claimOf({ lease, sinceMs }: SeenLease, nowMs: number): Claim {
  if (holderOf(lease) === undefined) return { kind: "take" };
  const seconds = lease?.spec?.leaseDurationSeconds ?? LEASE_SECONDS;
  const leftMs = sinceMs + seconds * 1000 - nowMs;
  return leftMs <= 0 ? { kind: "take" } : { kind: "wait", ms: leftMs };
}

/** Who writes the Lease, and when by the wall clock, which is for people only. */
export interface Writing {
  readonly key: ObjectKey;
  readonly identity: string;
  readonly nowMs: number;
}

/** The Lease that says that this process leads, made of the one that is there: taken from another, or renewed. */
export function heldLease(lease: Lease | undefined, { key, identity, nowMs }: Writing): Lease {
  const isRenewed = holderOf(lease) === identity;
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

/** The Lease that says that nobody leads any more: the next one need not wait. */
export function releasedLease(lease: Lease): Lease {
  return { ...lease, spec: { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1 } };
}
