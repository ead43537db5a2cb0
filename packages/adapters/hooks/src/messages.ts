// SPDX-License-Identifier: Apache-2.0
// What is said between us and the child that speaks to a hook. What comes back is read with care: the child has read what a
// hostile pod has sent. Pure.
import { isJsonObject } from "@patchbay/api/json";
import type { HookInfo, HookVersion } from "@patchbay/core/ports";

/** Token of the descriptor of the hook's socket. */
export const SOCKET_TOKEN = 1;

/** One call, as the child makes it. */
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

/** What the child is asked. */
export interface Question {
  readonly id: number;
  readonly call: HookCall;
  /** When it gives up, milliseconds since 1970. */
  readonly deadline: number;
}

/** What it answers: the hook's own message, or why there is none. */
export type Reply =
  | { readonly id: number; readonly answer: object }
  | { readonly id: number; readonly failure: Failure };

/** Why there is no answer. */
export interface Failure {
  /** Name of gRPC's status. */
  readonly status: string;
  readonly reason: string;
}

/** Bytes of an answer as gRPC gives them, at most. */
export const ANSWER_BYTES_MAX = 1024 * 1024;
/** Of what a hook says in words, characters. */
const REASON_MAX = 300;
/** Of what it says of itself. */
const NAMES_MAX = 32;
const NAME_MAX = 256;

function isText(value: unknown): value is string {
  return typeof value === "string";
}

/** What a hook says in words, short, and without what a terminal or a log would act on. */
export function soundReason(reason: string): string {
  return reason.replaceAll(/\p{Cc}+/gu, " ").slice(0, REASON_MAX);
}

/** The reply of a child, which may have been taken over; undefined: it is none. */
export function parseReply(message: unknown): Reply | undefined {
  if (!isJsonObject(message) || typeof message["id"] !== "number") return undefined;
  const { id, answer, failure } = message;
  if (isJsonObject(answer)) return { id, answer };
  if (!isJsonObject(failure)) return undefined;
  const { status, reason } = failure;
  if (!isText(status) || !isText(reason)) return undefined;
  return { id, failure: { status, reason: soundReason(reason) } };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value.slice(0, NAMES_MAX) : [];
}

/** What a hook says of itself; undefined: it cannot be read. */
export function parseInfo(answer: object): HookInfo | undefined {
  if (!isJsonObject(answer) || !isText(answer["name"])) return undefined;
  const { name, versions, hookPoints } = answer;
  return {
    name: name.slice(0, NAME_MAX),
    versions: listOf(versions)
      .filter(isText)
      .map((version) => soundReason(version)),
    hookPoints: listOf(hookPoints)
      .filter(isJsonObject)
      .flatMap(({ name: point, priority }) =>
        isText(point) && Number.isInteger(priority)
          ? [{ name: point, priority: Number(priority) }]
          : [],
      ),
  };
}

/** The domain that a hook answers; undefined: it is none. */
export function parseDomainXml(answer: object): string | undefined {
  const text = isJsonObject(answer) ? answer["domainXML"] : undefined;
  return isText(text) && text !== "" ? text : undefined;
}

/** What a hook answers of cloud-init's data; undefined: it cannot be read. */
export function parseCloudInit(
  answer: object,
): { readonly data: string; readonly noCloudSource: string } | undefined {
  if (!isJsonObject(answer)) return undefined;
  const { cloudInitData: data, cloudInitNoCloudSource: noCloudSource } = answer;
  return isText(data) && isText(noCloudSource) ? { data, noCloudSource } : undefined;
}
