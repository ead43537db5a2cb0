// SPDX-License-Identifier: Apache-2.0
// What is to be done about virt-api's certificates, and when is to be looked again? No I/O, no clock.

import type { Version } from "../routes/table.ts";

const MS_PER_DAY = 24 * 3_600_000;
/** Days for which a serving certificate is good: short, because nobody has to renew it by hand. */
export const SERVING_VALID_DAYS = 90;
/** A third of its time is left when it is renewed, as is usual: many tries before it ends. */
const SERVING_RENEW_BEFORE_MS = (SERVING_VALID_DAYS / 3) * MS_PER_DAY;
/** An authority is followed by another one a year before its end: longer than anything lives that it has signed. */
const AUTHORITY_RENEW_BEFORE_MS = 365 * MS_PER_DAY;

/** Who must know the authorities: the API server, by the APIService of each version and by the webhooks. */
export type Target = Version | "mutating" | "validating";

/** What is known. */
export interface CertificateFacts {
  readonly nowMs: number;
  /** The end of the authority that signs, milliseconds since 1970; absent: there is none. */
  readonly authorityEndMs?: number;
  /** The end of what is served with; absent: there is none of that authority and that name. */
  readonly servingEndMs?: number;
  /** Of what virt-handlers serve with; absent: they have no place for it. Without an end: what is there is no good. */
  readonly handlers?: { readonly endMs?: number };
  /** Those that are there, and whether all authorities of the bundle, and no others, stand in them. */
  readonly targets: readonly { readonly target: Target; readonly isCurrent: boolean }[];
}

/** One step. */
export type CertificateAction =
  | { readonly kind: "makeAuthority" }
  | { readonly kind: "writeBundle"; readonly target: Target }
  | { readonly kind: "issueHandlers" }
  | { readonly kind: "issueServing" };

/** The steps, in order, and after how many milliseconds is to be looked again when nothing changes. */
export interface CertificatePlan {
  readonly actions: readonly CertificateAction[];
  readonly lookAgainMs: number;
}

/** What was written tells of itself by a watch; this is for a watch that does not. */
const AFTER_WRITE_MS = 60_000;

/** Milliseconds until something is to be renewed that ends then; none left where it is not there. */
function timeLeft(endMs: number | undefined, beforeMs: number, nowMs: number): number {
  return endMs === undefined ? 0 : Math.max(0, endMs - beforeMs - nowMs);
}

/**
 * The authority first; then everybody is told of it; only then is served with what it has signed. So at no time
 * does virt-api show a certificate that the API server does not know.
 */
export function planCertificates(facts: CertificateFacts): CertificatePlan {
  const { nowMs, targets } = facts;
  const authorityLeftMs = timeLeft(facts.authorityEndMs, AUTHORITY_RENEW_BEFORE_MS, nowMs);
  if (authorityLeftMs === 0) {
    return { actions: [{ kind: "makeAuthority" }], lookAgainMs: AFTER_WRITE_MS };
  }
  const stale = targets.filter(({ isCurrent }) => !isCurrent);
  const told = stale.map(({ target }) => ({ kind: "writeBundle", target }) as const);
  const servingLeftMs = timeLeft(facts.servingEndMs, SERVING_RENEW_BEFORE_MS, nowMs);
  const { handlers } = facts;
  const handlersLeftMs =
    handlers === undefined ? Infinity : timeLeft(handlers.endMs, SERVING_RENEW_BEFORE_MS, nowMs);
  const issued = [
    ...(handlersLeftMs === 0 ? [{ kind: "issueHandlers" } as const] : []),
    ...(servingLeftMs === 0 ? [{ kind: "issueServing" } as const] : []),
  ];
  const leftMs = Math.min(authorityLeftMs, servingLeftMs, handlersLeftMs);
  return {
    actions: [...told, ...issued],
    lookAgainMs: issued.length > 0 ? AFTER_WRITE_MS : leftMs,
  };
}
