// SPDX-License-Identifier: Apache-2.0
// The product's error class. The catalogue determines how callers handle each error code.
import { CATALOGUE, type ErrorCode } from "./catalogue.ts";
import type { RetryRule } from "./entry.ts";

/** Details of an error. They are logged, so they must not contain secrets. */
export type Details = Readonly<Record<string, string | number | boolean | undefined>>;

export function fillTemplate(text: string, details: Details): string {
  return text.replace(/\{(\w+)\}/g, (_match, name: string) => String(details[name] ?? "unknown"));
}

/** Error with a stable code. Callers compare the code instead of the message. */
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

/** Minimum retry delay for errors that only a change resolves, in milliseconds. If the change is watched, it triggers an earlier retry. */
const ON_CHANGE_RETRY_DELAY_MS = 60_000;

/** Returns the minimum delay, in milliseconds, before a step or reconcile pass that failed with `error` is retried. */
export function minRetryDelayMs(error: unknown): number {
  return findRetryRule(error) === "backoff" ? 0 : ON_CHANGE_RETRY_DELAY_MS;
}

/** Returns whether the error means that a libvirt job locks the domain, so that other calls on the domain would fail too. */
export function isDomainBusy(error: unknown): boolean {
  return isAppError(error, "LIBVIRT_BUSY") || isAppError(error, "LIBVIRT_MIGRATING");
}
