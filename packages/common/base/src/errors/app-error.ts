// SPDX-License-Identifier: Apache-2.0
// The error class of the product. The catalogue, not the call site, says how to handle each error.
import { CATALOGUE, type ErrorCode } from "./catalogue.ts";
import type { RetryRule } from "./entry.ts";

/** Flat facts about one error, safe to log. Must not contain secrets. */
export type Details = Readonly<Record<string, string | number | boolean | undefined>>;

export function fillTemplate(text: string, details: Details): string {
  return text.replace(/\{(\w+)\}/g, (_match, name: string) => String(details[name] ?? "unknown"));
}

/** An error with a stable code. Match on `code`, not on the message. */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly details: Details;

  constructor(code: ErrorCode, details: Details = {}, options?: ErrorOptions) {
    super(fillTemplate(CATALOGUE[code].summary, details), options);
    this.code = code;
    this.details = details;
  }
}

export function isAppError(error: unknown, code?: ErrorCode): error is AppError {
  return error instanceof AppError && (code === undefined || error.code === code);
}

export function findRetryRule(error: unknown): RetryRule {
  return isAppError(error) ? CATALOGUE[error.code].retry : "backoff";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Shortest delay before an error that only a change can resolve is retried, in milliseconds. Watched changes trigger a
 * retry at once; this delay is for changes that nothing watches. It equals the longest backoff.
 */
const ON_CHANGE_RETRY_DELAY_MS = 60_000;

/** Returns the shortest delay before a failed step or pass is retried, in milliseconds. */
export function minRetryDelayMs(error: unknown): number {
  return findRetryRule(error) === "backoff" ? 0 : ON_CHANGE_RETRY_DELAY_MS;
}

/** Whether another libvirt job locks the domain, so that every other call on it would fail too. */
export function isDomainBusy(error: unknown): boolean {
  return isAppError(error, "LIBVIRT_BUSY") || isAppError(error, "LIBVIRT_MIGRATING");
}
