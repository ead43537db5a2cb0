// SPDX-License-Identifier: Apache-2.0
// Decides when virt-api's certificates are created and renewed. No I/O, no clock.

import type { Version } from "../routes/table.ts";

const MS_PER_DAY = 24 * 3_600_000;
/** Lifetime of a serving certificate in days. It is short, because renewal is automatic. */
export const SERVING_VALID_DAYS = 90;
/** Remaining lifetime at which to renew: one third, which leaves time for many attempts. */
const SERVING_RENEW_BEFORE_MS = (SERVING_VALID_DAYS / 3) * MS_PER_DAY;
/** Remaining lifetime at which to replace the CA: longer than the lifetime of any certificate that it signs. */
const AUTHORITY_RENEW_BEFORE_MS = 365 * MS_PER_DAY;

/** Objects with a CA bundle for the API server: the APIService of each version and the webhook configurations. */
export type Target = Version | "mutating" | "validating";

export interface CertificateFacts {
  readonly nowMs: number;
  /** Expiry of the CA in milliseconds since 1970; unset if there is none. */
  readonly authorityEndMs?: number;
  /** Expiry of the serving certificate; unset if it is missing, or not from this CA for this name. */
  readonly servingEndMs?: number;
  /** Serving certificate of virt-handlers; unset if its Secret is not installed. `endMs` is unset if it is missing or invalid. */
  readonly handlers?: { readonly endMs?: number };
  /** Existing objects, and whether they have exactly the current bundle. */
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

/** Time until the next check after a write, in case its watch event is missed. */
const RECHECK_AFTER_WRITE_MS = 60_000;

/** Returns the milliseconds until the renewal; 0 if there is nothing to renew yet. */
function msUntilRenewal(endMs: number | undefined, beforeMs: number, nowMs: number): number {
  return endMs === undefined ? 0 : Math.max(0, endMs - beforeMs - nowMs);
}

/** Plans the next writes. Distributes a new CA before it issues certificates, so that the API server always trusts virt-api. */
export function planCertificates(facts: CertificateFacts): CertificatePlan {
  const { nowMs, targets } = facts;
  const msUntilAuthorityRenewal = msUntilRenewal(
    facts.authorityEndMs,
    AUTHORITY_RENEW_BEFORE_MS,
    nowMs,
  );
  if (msUntilAuthorityRenewal === 0) {
    return { actions: [{ kind: "makeAuthority" }], nextCheckMs: RECHECK_AFTER_WRITE_MS };
  }
  const stale = targets.filter(({ isCurrent }) => !isCurrent);
  const bundleWrites = stale.map(({ target }) => ({ kind: "writeBundle", target }) as const);
  const msUntilServingRenewal = msUntilRenewal(facts.servingEndMs, SERVING_RENEW_BEFORE_MS, nowMs);
  const { handlers } = facts;
  const msUntilHandlersRenewal =
    handlers === undefined
      ? Infinity
      : msUntilRenewal(handlers.endMs, SERVING_RENEW_BEFORE_MS, nowMs);
  const issued = [
    ...(msUntilHandlersRenewal === 0 ? [{ kind: "issueHandlers" } as const] : []),
    ...(msUntilServingRenewal === 0 ? [{ kind: "issueServing" } as const] : []),
  ];
  const msUntilNextRenewal = Math.min(
    msUntilAuthorityRenewal,
    msUntilServingRenewal,
    msUntilHandlersRenewal,
  );
  return {
    actions: [...bundleWrites, ...issued],
    nextCheckMs: issued.length > 0 ? RECHECK_AFTER_WRITE_MS : msUntilNextRenewal,
  };
}
