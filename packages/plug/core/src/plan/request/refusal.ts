// SPDX-License-Identifier: Apache-2.0
// What becomes of a request to plug or unplug: a patch, nothing, or a refusal, and how that is said.
import { isJsonObject, type Cause, type JsonPatchOperation, type JsonObject } from "@patchbay/api";

/** Why a request is refused; becomes a `metav1.Status`. */
export interface Refusal {
  readonly code: 400 | 403 | 404 | 409 | 422;
  readonly reason: "BadRequest" | "Forbidden" | "NotFound" | "Conflict" | "Invalid";
  readonly message: string;
  readonly causes: readonly Cause[];
}

/** When a change reaches the guest: while it runs, or when the VM is started next. */
type NicEffect = "live" | "start";

/** What becomes of a request: one patch that fails when somebody else was faster, nothing, or an answer that says no. */
export type NicPlan =
  | {
      readonly kind: "patch";
      readonly operations: readonly JsonPatchOperation[];
      readonly effect: NicEffect;
      readonly message: string;
    }
  | { readonly kind: "unchanged"; readonly message: string }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** What was read from a body, or the answer to one that cannot be read. */
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

/** Makes a refusal; the message of the first cause stands for all when none is given. */
export function toRefusal(
  code: Refusal["code"],
  causes: readonly Cause[],
  message?: string,
): Refusal {
  const first = causes[0]?.message ?? "";
  const text = message ?? (causes.length > 1 ? causes.map(sayCause).join("; ") : first);
  return { code, reason: REASONS[code], message: text, causes };
}

function sayCause(cause: Cause): string {
  return `${cause.field}: ${cause.message}`;
}

/** A plan that writes nothing and answers with {@link toRefusal}. */
export function refuse(code: Refusal["code"], causes: readonly Cause[], message?: string): NicPlan {
  return { kind: "refused", refusal: toRefusal(code, causes, message) };
}

/** Its members; none where there is no body. Members that are not known are left alone, as KubeVirt does. */
export function membersOf(body: unknown): Parsed<JsonObject> {
  if (body === undefined || body === null) return { ok: true, value: {} };
  if (isJsonObject(body)) return { ok: true, value: body };
  const message = "cannot unmarshal Request body to struct, error: it is no object";
  return { ok: false, refusal: toRefusal(400, [], message) };
}
