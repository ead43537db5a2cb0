// SPDX-License-Identifier: Apache-2.0
// Error responses: Kubernetes `Status` objects with the exact messages that clients parse.
import { PROBLEMS_MAX } from "@patchbay/api/limits";
import type { Fields } from "../objects/json.ts";

/** Reason for an error, usually about one field. Source: Kubernetes metav1.StatusCause. */
export interface Cause {
  readonly reason:
    | "FieldValueRequired"
    | "FieldValueInvalid"
    | "FieldValueDuplicate"
    | "FieldValueNotFound"
    | "FieldValueNotSupported"
    | "FieldValueForbidden"
    | "FieldValueTooLong"
    | "FieldValueTooMany"
    | "FieldValueTypeInvalid"
    | "FieldManagerConflict"
    | "NamespaceTerminating"
    | "ResourceVersionTooLarge"
    | "DisruptionBudget"
    | "UnexpectedServerResponse";
  readonly message: string;
  readonly field?: string;
}

/** Details of an error or a deletion. Source: Kubernetes metav1.StatusDetails. */
export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  /** Name of the resource in 404 and 409 responses; kind of the object in 422 responses. */
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly Cause[];
  readonly retryAfterSeconds?: number;
}

export class StatusError extends Error {
  override readonly name = "StatusError";
  readonly code: number;
  readonly reason: string;
  readonly details: StatusDetails | undefined;
  readonly #metadata: Fields;

  constructor(options: {
    readonly code: number;
    readonly reason: string;
    readonly message: string;
    readonly details?: StatusDetails;
    readonly continueToken?: string;
  }) {
    super(options.message);
    this.code = options.code;
    this.reason = options.reason;
    this.details = options.details;
    this.#metadata = options.continueToken === undefined ? {} : { continue: options.continueToken };
  }

  toBody(): Fields {
    return {
      kind: "Status",
      apiVersion: "v1",
      metadata: this.#metadata,
      status: "Failure",
      message: this.message,
      ...(this.reason === "" ? {} : { reason: this.reason }),
      ...(this.details === undefined ? {} : { details: this.details }),
      code: this.code,
    };
  }
}

export interface ResourceRef {
  readonly group: string;
  readonly resource: string;
  readonly kind: string;
}

export function successBody(details: StatusDetails): Fields {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details };
}

function qualifiedResource(ref: ResourceRef): string {
  return ref.group === "" ? ref.resource : `${ref.resource}.${ref.group}`;
}

function nameDetail(name: string): Pick<StatusDetails, "name"> {
  return name === "" ? {} : { name };
}

function buildDetails(ref: ResourceRef, name: string): { readonly details: StatusDetails } {
  const group = ref.group === "" ? {} : { group: ref.group };
  return { details: { ...nameDetail(name), ...group, kind: ref.resource } };
}

export function notFound(ref: ResourceRef, name: string): StatusError {
  const message = `${qualifiedResource(ref)} "${name}" not found`;
  return new StatusError({ code: 404, reason: "NotFound", message, ...buildDetails(ref, name) });
}

/** Creates a 404 for a path that is not served. `feature` is the missing feature, if it is known. */
export function unknownPath(feature?: string): StatusError {
  const baseMessage = "the server could not find the requested resource";
  const message =
    feature === undefined
      ? baseMessage
      : `${baseMessage}: Patchbay does not have ${feature}; nothing was changed`;
  return new StatusError({ code: 404, reason: "NotFound", message, details: {} });
}

export function alreadyExists(ref: ResourceRef, name: string): StatusError {
  const message = `${qualifiedResource(ref)} "${name}" already exists`;
  return new StatusError({
    code: 409,
    reason: "AlreadyExists",
    message,
    ...buildDetails(ref, name),
  });
}

export function conflict(ref: ResourceRef, name: string, explanation: string): StatusError {
  const message = `Operation cannot be fulfilled on ${qualifiedResource(ref)} "${name}": ${explanation}`;
  return new StatusError({ code: 409, reason: "Conflict", message, ...buildDetails(ref, name) });
}

export function modified(ref: ResourceRef, name: string): StatusError {
  const explanation =
    "the object has been modified; please apply your changes to the latest version and try again";
  return conflict(ref, name, explanation);
}

export function tooLarge(explanation: string): StatusError {
  const message = `Request entity too large: ${explanation}`;
  return new StatusError({ code: 413, reason: "RequestEntityTooLarge", message });
}

export function tooManyRequests(message: string): StatusError {
  const details = { retryAfterSeconds: 1 };
  return new StatusError({ code: 429, reason: "TooManyRequests", message, details });
}

export function invalid(ref: ResourceRef, name: string, allCauses: readonly Cause[]): StatusError {
  const causes = allCauses.slice(0, PROBLEMS_MAX);
  const lines = causes.map((cause) => `${cause.field ?? ""}: ${cause.message}`);
  const text = lines.length === 1 ? (lines[0] ?? "") : `[${lines.join(", ")}]`;
  const kind = ref.group === "" ? ref.kind : `${ref.kind}.${ref.group}`;
  const group = ref.group === "" ? {} : { group: ref.group };
  return new StatusError({
    code: 422,
    reason: "Invalid",
    message: `${kind} "${name}" is invalid: ${text}`,
    details: {
      ...nameDetail(name),
      ...group,
      ...(ref.kind === "" ? {} : { kind: ref.kind }),
      causes,
    },
  });
}

export function badRequest(message: string): StatusError {
  return new StatusError({ code: 400, reason: "BadRequest", message });
}

export function forbidden(ref: ResourceRef, name: string, explanation: string): StatusError {
  const message = `${qualifiedResource(ref)}${name === "" ? "" : ` "${name}"`} is forbidden: ${explanation}`;
  return new StatusError({ code: 403, reason: "Forbidden", message, ...buildDetails(ref, name) });
}

export function unauthorized(): StatusError {
  return new StatusError({ code: 401, reason: "Unauthorized", message: "Unauthorized" });
}

export function methodNotAllowed(): StatusError {
  const message = "the server does not allow this method on the requested resource";
  return new StatusError({ code: 405, reason: "MethodNotAllowed", message, details: {} });
}

/** Creates an error 410 for a compacted revision. With `continueToken`, the client can continue the list at the current revision. */
export function expired(message: string, continueToken?: string): StatusError {
  const tokenOption = continueToken === undefined ? {} : { continueToken };
  return new StatusError({ code: 410, reason: "Expired", message, ...tokenOption });
}

export function unsupportedMediaType(
  contentType: string,
  supported: readonly string[],
): StatusError {
  const message =
    `the body of the request was in an unknown format - accepted media types include: ${supported.join(", ")}` +
    (contentType === "" ? "" : ` (got ${contentType})`);
  return new StatusError({ code: 415, reason: "UnsupportedMediaType", message });
}

export function insufficientStorage(message: string): StatusError {
  return new StatusError({ code: 507, reason: "InsufficientStorage", message });
}

export function internalError(message: string): StatusError {
  return new StatusError({
    code: 500,
    reason: "InternalError",
    message: `Internal error occurred: ${message}`,
    details: { causes: [{ reason: "UnexpectedServerResponse", message }] },
  });
}

/** Creates a 504 for a resourceVersion that the store has not reached. */
export function tooLargeResourceVersion(requested: number, current: number): StatusError {
  const cause: Cause = { reason: "ResourceVersionTooLarge", message: "Too large resource version" };
  return new StatusError({
    code: 504,
    reason: "Timeout",
    message: `Timeout: Too large resource version: ${String(requested)}, current: ${String(current)}`,
    details: { causes: [cause], retryAfterSeconds: 1 },
  });
}
