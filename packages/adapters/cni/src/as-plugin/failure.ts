// SPDX-License-Identifier: Apache-2.0
// What is a container runtime told of an error? Pure. Source: CNI SPEC 1.1 section 5, "Error".
import { isAppError, messageOf, retryRuleOf, type AppError } from "@patchbay/core";
import { CNI_CODES } from "./call.ts";

/** An error as plugins print it. */
export interface PluginFailure {
  readonly cniVersion?: string;
  readonly code: number;
  readonly msg: string;
}

/** The API server, the container runtime: they come back, and nobody has to change anything. */
const OF_OTHERS = /^(?:KUBE|CRI)_/;

function codeOf({ code, details }: AppError): number {
  const { cniCode } = details;
  if (typeof cniCode === "number" && cniCode > 0) return cniCode;
  if (code === "CNI_CONFIG_INVALID") return CNI_CODES.badConfig;
  return CNI_CODES.internal;
}

function isPassing(error: AppError): boolean {
  if (error.code === "CNI_TIMED_OUT" || error.code === "CNI_POD_UNKNOWN") return true;
  return OF_OTHERS.test(error.code) && retryRuleOf(error) === "backoff";
}

/** The error in CNI's words; what passes by itself is to be tried again. */
export function pluginFailureOf(error: unknown, cniVersion?: string): PluginFailure {
  const own = isAppError(error) ? codeOf(error) : CNI_CODES.internal;
  const code = isAppError(error) && isPassing(error) ? CNI_CODES.tryAgain : own;
  return { ...(cniVersion === undefined ? {} : { cniVersion }), code, msg: messageOf(error) };
}
