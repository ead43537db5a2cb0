// SPDX-License-Identifier: Apache-2.0
// Decides when virt-api's certificates are created and renewed. No I/O, no clock.

import type { Version } from "../routes/table.ts";

const MS_PER_DAY = 24 * 3_600_000;
/** Short, because renewal is automatic. */
export const SERVING_VALID_DAYS = 90;
/** One third of the lifetime, which leaves time for many attempts. */
const SERVING_RENEW_BEFORE_MS = (SERVING_VALID_DAYS / 3) * MS_PER_DAY;
/** One year, longer than the lifetime of any certificate that the CA signs. */
const AUTHORITY_RENEW_BEFORE_MS = 365 * MS_PER_DAY;

/** Objects with a CA bundle for the API server: the APIService of each version and the webhook configurations. */
export type Target = Version | "mutating" | "validating";

export interface CertificateFacts {
  readonly nowMs: number;
  /** Milliseconds since 1970; unset without a CA. */
  readonly authorityEndMs?: number;
  /** Unset without a certificate from this CA for this name. */
  readonly servingEndMs?: number;
  /** Serving certificate of virt-handlers. Unset if the Secret is not installed; no end if the certificate is missing or invalid. */
  readonly handlers?: { readonly endMs?: number };
  /** Existing objects, and whether they hold exactly the present bundle. */
  readonly targets: readonly { readonly target: Target; readonly isCurrent: boolean }[];
}

export type CertificateAction =
  | { readonly kind: "makeAuthority" }
  | { readonly kind: "writeBundle"; readonly target: Target }
  | { readonly kind: "issueHandlers" }
  | { readonly kind: "issueServing" };

export interface CertificatePlan {
  readonly actions: readonly CertificateAction[];
  readonly nextCheckMs: number;
}

/** Fallback for a missed watch event after a write. */
const RECHECK_AFTER_WRITE_MS = 60_000;

/** Milliseconds until the renewal; 0 if there is nothing to renew yet. */
function msUntilRenewal(endMs: number | undefined, beforeMs: number, nowMs: number): number {
  return endMs === undefined ? 0 : Math.max(0, endMs - beforeMs - nowMs);
}

/** Distributes a new CA before it issues certificates, so that the API server always trusts virt-api. */
export function planCertificates(facts: CertificateFacts): CertificatePlan {
  const { nowMs, targets } = facts;
  const authorityLeftMs = msUntilRenewal(facts.authorityEndMs, AUTHORITY_RENEW_BEFORE_MS, nowMs);
  if (authorityLeftMs === 0) {
    return { actions: [{ kind: "makeAuthority" }], nextCheckMs: RECHECK_AFTER_WRITE_MS };
  }
  const stale = targets.filter(({ isCurrent }) => !isCurrent);
  const bundleWrites = stale.map(({ target }) => ({ kind: "writeBundle", target }) as const);
  const servingLeftMs = msUntilRenewal(facts.servingEndMs, SERVING_RENEW_BEFORE_MS, nowMs);
  const { handlers } = facts;
  const handlersLeftMs =
    handlers === undefined
      ? Infinity
      : msUntilRenewal(handlers.endMs, SERVING_RENEW_BEFORE_MS, nowMs);
  const issued = [
    ...(handlersLeftMs === 0 ? [{ kind: "issueHandlers" } as const] : []),
    ...(servingLeftMs === 0 ? [{ kind: "issueServing" } as const] : []),
  ];
  const leftMs = Math.min(authorityLeftMs, servingLeftMs, handlersLeftMs);
  return {
    actions: [...bundleWrites, ...issued],
    nextCheckMs: issued.length > 0 ? RECHECK_AFTER_WRITE_MS : leftMs,
  };
}
