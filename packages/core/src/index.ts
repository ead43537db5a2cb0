// SPDX-License-Identifier: Apache-2.0
// The public door of core.
export { AppError, isAppError, messageOf, retryRuleOf, type Details } from "./errors/app-error.ts";
export { CATALOGUE, type ErrorCode } from "./errors/catalogue.ts";
export type { ErrorEntry, ErrorOwner, RetryRule } from "./errors/entry.ts";
