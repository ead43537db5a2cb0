// SPDX-License-Identifier: Apache-2.0
// What gRPC says of a call → one of ours. Pure.
import { AppError, messageOf } from "@patchbay/core/errors";

/** Numbers of gRPC's statuses. Source: gRPC core, "Status codes and their use in gRPC". */
const STATUSES: readonly string[] = [
  "OK",
  "CANCELLED",
  "UNKNOWN",
  "INVALID_ARGUMENT",
  "DEADLINE_EXCEEDED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
  "FAILED_PRECONDITION",
  "ABORTED",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
  "UNAUTHENTICATED",
];

/** What was called, and whether there is a connection now. */
export interface FailedCall {
  readonly method: string;
  readonly timeoutMs: number;
  readonly endpoint: string;
  readonly isConnected: boolean;
}

/** Text as gRPC gives it in `details`, else the error's own. */
function reasonOf(error: unknown): string {
  const details = error instanceof Error && "details" in error ? error.details : undefined;
  return typeof details === "string" && details !== "" ? details : messageOf(error);
}

function statusOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return (typeof code === "number" ? STATUSES[code] : undefined) ?? "UNKNOWN";
}

/**
 * Names what has happened. A runtime says UNAVAILABLE of a registry too; then it has answered, and the connection is
 * still there.
 */
export function toCriError(error: unknown, call: FailedCall): AppError {
  const status = statusOf(error);
  const reason = reasonOf(error);
  const { method, timeoutMs, endpoint } = call;
  if (status === "DEADLINE_EXCEEDED") {
    return new AppError("CRI_TIMED_OUT", { call: method, timeoutMs }, { cause: error });
  }
  const isOfRegistry = method === "PullImage" && call.isConnected;
  const isGone = status === "CANCELLED" || (status === "UNAVAILABLE" && !isOfRegistry);
  return isGone
    ? new AppError("CRI_UNAVAILABLE", { endpoint, reason }, { cause: error })
    : new AppError("CRI_FAILED", { call: method, status, reason }, { cause: error });
}
