// SPDX-License-Identifier: Apache-2.0
// Messages between the parent and the child that calls a hook. The parent validates each message, because a hostile
// hook could compromise the child.
import { isJsonObject } from "@patchbay/api/json";
import type { HookInfo, HookVersion } from "@patchbay/core/interfaces";

export const SOCKET_TOKEN = 1;

export type HookCall =
  | { readonly method: "Info" }
  | {
      readonly method: "OnDefineDomain";
      readonly version: HookVersion;
      readonly domainXml: string;
      readonly vmi: string;
    }
  | {
      readonly method: "PreCloudInitIso";
      readonly version: HookVersion;
      readonly data: string;
      readonly noCloudSource: string;
      readonly vmi: string;
    }
  | { readonly method: "Shutdown" };

export interface HookRequest {
  readonly id: number;
  readonly call: HookCall;
  /** Deadline of the call, in milliseconds since 1970. */
  readonly deadline: number;
}

/** Reply of the child: the hook's answer, or the reason why the call failed. */
export type Reply =
  | { readonly id: number; readonly answer: object }
  | { readonly id: number; readonly failure: Failure };

export interface Failure {
  readonly status: string;
  readonly reason: string;
}

export const ANSWER_BYTES_MAX = 1024 * 1024;
const REASON_MAX = 300;
const NAMES_MAX = 32;
const NAME_MAX = 256;

function isText(value: unknown): value is string {
  return typeof value === "string";
}

/** Shortens the reason, and replaces control characters, which could affect a terminal or a log. */
export function sanitizeReason(reason: string): string {
  return reason.replaceAll(/\p{Cc}+/gu, " ").slice(0, REASON_MAX);
}

export function parseReply(message: unknown): Reply | undefined {
  if (!isJsonObject(message) || typeof message["id"] !== "number") return undefined;
  const { id, answer, failure } = message;
  if (isJsonObject(answer)) return { id, answer };
  if (!isJsonObject(failure)) return undefined;
  const { status, reason } = failure;
  if (!isText(status) || !isText(reason)) return undefined;
  return { id, failure: { status, reason: sanitizeReason(reason) } };
}

function limitedList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value.slice(0, NAMES_MAX) : [];
}

export function parseInfo(answer: object): HookInfo | undefined {
  if (!isJsonObject(answer) || !isText(answer["name"])) return undefined;
  const { name, versions, hookPoints } = answer;
  return {
    name: name.slice(0, NAME_MAX),
    versions: limitedList(versions)
      .filter(isText)
      .map((version) => sanitizeReason(version)),
    hookPoints: limitedList(hookPoints)
      .filter(isJsonObject)
      .flatMap(({ name: hookPoint, priority }) =>
        isText(hookPoint) && Number.isInteger(priority)
          ? [{ name: hookPoint, priority: Number(priority) }]
          : [],
      ),
  };
}

export function parseDomainXml(answer: object): string | undefined {
  const text = isJsonObject(answer) ? answer["domainXML"] : undefined;
  return isText(text) && text !== "" ? text : undefined;
}

export function parseCloudInit(
  answer: object,
): { readonly data: string; readonly noCloudSource: string } | undefined {
  if (!isJsonObject(answer)) return undefined;
  const { cloudInitData: data, cloudInitNoCloudSource: noCloudSource } = answer;
  return isText(data) && isText(noCloudSource) ? { data, noCloudSource } : undefined;
}
