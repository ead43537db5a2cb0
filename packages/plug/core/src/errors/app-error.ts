// SPDX-License-Identifier: Apache-2.0
// The one error class. What to do about an error is data in the catalogue, not at the call site.
import { CATALOGUE, type ErrorCode } from "./catalogue.ts";
import type { RetryRule } from "./entry.ts";

/** Flat, loggable facts about one error. Never secrets. */
export type Details = Readonly<Record<string, string | number | boolean | undefined>>;

/** The text with each `{name}` replaced by what the details have under that name. */
export function fillIn(text: string, details: Details): string {
  return text.replace(/\{(\w+)\}/g, (_match, name: string) => String(details[name] ?? "unknown"));
}

/** An error with a stable code. Match on `code`, never on the message. */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly details: Details;

  constructor(code: ErrorCode, details: Details = {}, options?: ErrorOptions) {
    super(fillIn(CATALOGUE[code].summary, details), options);
    this.code = code;
    this.details = details;
  }
}

/** Whether `error` is an {@link AppError}, with that code when one is given. */
export function isAppError(error: unknown, code?: ErrorCode): error is AppError {
  return error instanceof AppError && (code === undefined || error.code === code);
}

/** When to try again after `error`; what is unknown is tried again with backoff. */
export function retryRuleOf(error: unknown): RetryRule {
  return isAppError(error) ? CATALOGUE[error.code].retry : "backoff";
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
