// SPDX-License-Identifier: Apache-2.0
import type { Version } from "../routes/table.ts";

const MS_PER_DAY = 24 * 3_600_000;
export const SERVING_VALID_DAYS = 90;
/** Remaining lifetime at which virt-api renews a serving certificate, in milliseconds. */
const SERVING_RENEW_BEFORE_MS = (SERVING_VALID_DAYS / 3) * MS_PER_DAY;
/** Remaining lifetime at which virt-api replaces the CA, in milliseconds. All certificates that the CA signs are valid for less time. */
const AUTHORITY_RENEW_BEFORE_MS = 365 * MS_PER_DAY;

/** Object that contains the CA bundle for the API server: an APIService or a webhook configuration. */
export type Target = Version | "mutating" | "validating";

export interface CertificateFacts {
  readonly nowMs: number;
  /** Expiry of the CA in milliseconds since 1970; unset if no CA exists. */
  readonly authorityEndMs?: number;
  /** Expiry of the serving certificate; unset if the certificate is missing or invalid. */
  readonly servingEndMs?: number;
  /** Secret for virt-handlers' certificate; unset if no such Secret exists. `endMs` is the expiry; unset without a valid certificate. */
  readonly handlers?: { readonly endMs?: number };
  /** Existing APIServices and webhook configurations. `isCurrent` is true if the object contains exactly the current bundle. */
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

/** Delay in milliseconds until the next check after a write. Usually, the watch event of the write starts a check sooner. */
const RECHECK_AFTER_WRITE_MS = 60_000;

/** Returns the milliseconds until the renewal; 0 if the certificate is missing or due for renewal. */
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
  const staleTargets = targets.filter(({ isCurrent }) => !isCurrent);
  const bundleWrites = staleTargets.map(({ target }) => ({ kind: "writeBundle", target }) as const);
  const msUntilServingRenewal = msUntilRenewal(facts.servingEndMs, SERVING_RENEW_BEFORE_MS, nowMs);
  const { handlers } = facts;
  const msUntilHandlersRenewal =
    handlers === undefined
      ? Infinity
      : msUntilRenewal(handlers.endMs, SERVING_RENEW_BEFORE_MS, nowMs);
  const issueActions = [
    ...(msUntilHandlersRenewal === 0 ? [{ kind: "issueHandlers" } as const] : []),
    ...(msUntilServingRenewal === 0 ? [{ kind: "issueServing" } as const] : []),
  ];
  const msUntilNextRenewal = Math.min(
    msUntilAuthorityRenewal,
    msUntilServingRenewal,
    msUntilHandlersRenewal,
  );
  return {
    actions: [...bundleWrites, ...issueActions],
    nextCheckMs: issueActions.length > 0 ? RECHECK_AFTER_WRITE_MS : msUntilNextRenewal,
  };
}
