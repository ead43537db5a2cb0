// SPDX-License-Identifier: Apache-2.0
// How refusals are said: Kubernetes `Status` bodies with the exact texts that clients parse.
import type { Fields } from "../objects/json.ts";

/** One cause of a refusal. Source: Kubernetes metav1.StatusCause. */
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

/** What a Status says about the object. Source: Kubernetes metav1.StatusDetails. */
export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  /** The resource for 404 and 409, the Kind for 422. */
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly Cause[];
  readonly retryAfterSeconds?: number;
}

/** A refusal: thrown anywhere below a verb, answered as a Status. */
export class StatusError extends Error {
  override readonly name = "StatusError";
  readonly code: number;
  readonly reason: string;
  readonly details: StatusDetails | undefined;
  readonly #metadata: Fields;

  constructor(answer: {
    readonly code: number;
    readonly reason: string;
    readonly message: string;
    readonly details?: StatusDetails;
    /** Where a list that expired may go on. */
    readonly continueToken?: string;
  }) {
    super(answer.message);
    this.code = answer.code;
    this.reason = answer.reason;
    this.details = answer.details;
    this.#metadata = answer.continueToken === undefined ? {} : { continue: answer.continueToken };
  }

  /** The body. */
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

/** Which resource a refusal is about. */
export interface About {
  readonly group: string;
  readonly resource: string;
  readonly kind: string;
}

/** The body of a success without an object. */
export function successBody(details: StatusDetails): Fields {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details };
}

function qualified(about: About): string {
  return about.group === "" ? about.resource : `${about.resource}.${about.group}`;
}

/** Details leave out what is empty. */
function named(name: string): Pick<StatusDetails, "name"> {
  return name === "" ? {} : { name };
}

/** What a refusal says beside its message of the object that it is about. */
function of(about: About, name: string): { readonly details: StatusDetails } {
  const group = about.group === "" ? {} : { group: about.group };
  return { details: { ...named(name), ...group, kind: about.resource } };
}

/** 404 for an object. */
export function notFound(about: About, name: string): StatusError {
  const message = `${qualified(about)} "${name}" not found`;
  return new StatusError({ code: 404, reason: "NotFound", message, ...of(about, name) });
}

/** 404 for a path that nothing serves; `feature`: what would stand behind it, where that is known. */
export function unknownPath(feature?: string): StatusError {
  const head = "the server could not find the requested resource";
  const message =
    feature === undefined
      ? head
      : `${head}: Patchbay does not have ${feature}; nothing was changed`;
  return new StatusError({ code: 404, reason: "NotFound", message, details: {} });
}

/** 409 for a name that is taken. */
export function alreadyExists(about: About, name: string): StatusError {
  const message = `${qualified(about)} "${name}" already exists`;
  return new StatusError({ code: 409, reason: "AlreadyExists", message, ...of(about, name) });
}

/** 409 with a text of one's own. */
export function conflict(about: About, name: string, why: string): StatusError {
  const message = `Operation cannot be fulfilled on ${qualified(about)} "${name}": ${why}`;
  return new StatusError({ code: 409, reason: "Conflict", message, ...of(about, name) });
}

/** 409 for a stale resourceVersion. */
export function modified(about: About, name: string): StatusError {
  const why =
    "the object has been modified; please apply your changes to the latest version and try again";
  return conflict(about, name, why);
}

/** 413: a body or an object is larger than the server takes. */
export function tooLarge(why: string): StatusError {
  const message = `Request entity too large: ${why}`;
  return new StatusError({ code: 413, reason: "RequestEntityTooLarge", message });
}

/** 429: later, and not so often. */
export function tooManyRequests(message: string): StatusError {
  const details = { retryAfterSeconds: 1 };
  return new StatusError({ code: 429, reason: "TooManyRequests", message, details });
}

/** Nobody reads more of them. */
const CAUSES_MAX = 100;

/** 422 with all causes at once, as far as anybody reads them. */
export function invalid(about: About, name: string, all: readonly Cause[]): StatusError {
  const causes = all.slice(0, CAUSES_MAX);
  const lines = causes.map((cause) => `${cause.field ?? ""}: ${cause.message}`);
  const text = lines.length === 1 ? (lines[0] ?? "") : `[${lines.join(", ")}]`;
  const kind = about.group === "" ? about.kind : `${about.kind}.${about.group}`;
  const group = about.group === "" ? {} : { group: about.group };
  return new StatusError({
    code: 422,
    reason: "Invalid",
    message: `${kind} "${name}" is invalid: ${text}`,
    details: {
      ...named(name),
      ...group,
      ...(about.kind === "" ? {} : { kind: about.kind }),
      causes,
    },
  });
}

/** 400: what was sent cannot be read, or not together. */
export function badRequest(message: string): StatusError {
  return new StatusError({ code: 400, reason: "BadRequest", message });
}

/** 403 for a user. */
export function forbidden(about: About, name: string, why: string): StatusError {
  const message = `${qualified(about)}${name === "" ? "" : ` "${name}"`} is forbidden: ${why}`;
  return new StatusError({ code: 403, reason: "Forbidden", message, ...of(about, name) });
}

/** 401: credentials that are nobody's. */
export function unauthorized(): StatusError {
  return new StatusError({ code: 401, reason: "Unauthorized", message: "Unauthorized" });
}

/** 405: the resource has no such verb. */
export function methodNotAllowed(): StatusError {
  const message = "the server does not allow this method on the requested resource";
  return new StatusError({ code: 405, reason: "MethodNotAllowed", message, details: {} });
}

/** 410 for a resourceVersion that is compacted; a list may offer to go on all the same. */
export function expired(message: string, continueToken?: string): StatusError {
  const next = continueToken === undefined ? {} : { continueToken };
  return new StatusError({ code: 410, reason: "Expired", message, ...next });
}

/** 415: a body in a form that is not taken; `message` lists those that are. */
export function unsupportedMediaType(
  contentType: string,
  supported: readonly string[],
): StatusError {
  const message =
    `the body of the request was in an unknown format - accepted media types include: ${supported.join(", ")}` +
    (contentType === "" ? "" : ` (got ${contentType})`);
  return new StatusError({ code: 415, reason: "UnsupportedMediaType", message });
}

/** 500 with a text. */
export function internalError(message: string): StatusError {
  return new StatusError({
    code: 500,
    reason: "InternalError",
    message: `Internal error occurred: ${message}`,
    details: { causes: [{ reason: "UnexpectedServerResponse", message }] },
  });
}

/** 504 for a resourceVersion that is not there yet. */
export function tooLargeResourceVersion(asked: number, current: number): StatusError {
  const cause: Cause = { reason: "ResourceVersionTooLarge", message: "Too large resource version" };
  return new StatusError({
    code: 504,
    reason: "Timeout",
    message: `Timeout: Too large resource version: ${String(asked)}, current: ${String(current)}`,
    details: { causes: [cause], retryAfterSeconds: 1 },
  });
}
