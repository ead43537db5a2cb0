// SPDX-License-Identifier: Apache-2.0
import { isJsonObject, type JsonPatchOperation, type JsonObject } from "@patchbay/api/json";
import type { Cause } from "@patchbay/api/kubernetes";

/** Refused request. virt-api returns it to the client as a `metav1.Status`. */
export interface Refusal {
  readonly code: 400 | 403 | 404 | 409 | 422;
  readonly reason: "BadRequest" | "Forbidden" | "NotFound" | "Conflict" | "Invalid";
  readonly message: string;
  readonly causes: readonly Cause[];
}

type NicEffect = "live" | "start";

export type NicPlan =
  | {
      readonly kind: "patch";
      readonly operations: readonly JsonPatchOperation[];
      readonly effect: NicEffect;
      readonly message: string;
    }
  | { readonly kind: "unchanged"; readonly message: string }
  | { readonly kind: "refused"; readonly refusal: Refusal };

export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: Refusal };

const REASONS = {
  400: "BadRequest",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  422: "Invalid",
} as const;

/** Builds a refusal. If `message` is unset, uses the messages of the causes. */
export function toRefusal(
  code: Refusal["code"],
  causes: readonly Cause[],
  message?: string,
): Refusal {
  const firstMessage = causes[0]?.message ?? "";
  const text = message ?? (causes.length > 1 ? causes.map(formatCause).join("; ") : firstMessage);
  return { code, reason: REASONS[code], message: text, causes };
}

function formatCause(cause: Cause): string {
  return `${cause.field}: ${cause.message}`;
}

export function refuse(code: Refusal["code"], causes: readonly Cause[], message?: string): NicPlan {
  return { kind: "refused", refusal: toRefusal(code, causes, message) };
}

/** Returns the members of a JSON body, or an empty object if there is no body. Accepts unknown members, as KubeVirt does. */
export function readMembers(body: unknown): Parsed<JsonObject> {
  if (body === undefined || body === null) return { ok: true, value: {} };
  if (isJsonObject(body)) return { ok: true, value: body };
  const message = "cannot unmarshal Request body to struct, error: the body is not a JSON object";
  return { ok: false, refusal: toRefusal(400, [], message) };
}
