// SPDX-License-Identifier: Apache-2.0
// What does a refusal of the API server mean?
import { isJsonObject, parseJson, type Cause, type StatusBody } from "@patchbay/api";
import { AppError, type Details, type ErrorCode } from "@patchbay/core";

/** What was asked. */
export interface Asked {
  readonly verb: string;
  /** Plural name, or the path of a raw request. */
  readonly resource: string;
  /** `namespace/name`, or empty. */
  readonly object: string;
  /** Whether it was a JSON patch with a `test` operation. */
  readonly isTested?: boolean;
}

/** Most characters of an answer that is no Status. */
const TEXT_MAX = 300;

/** The Status in an answer's text, or undefined when it is something else. */
export function parseStatus(text: string): StatusBody | undefined {
  const body = parseJson(text); // none in a proxy's page, or in the plain text of an unknown path
  const isStatus = isJsonObject(body) && body["kind"] === "Status";
  return isStatus ? (body as unknown as StatusBody) : undefined; // its kind says so
}

function printCause(cause: Partial<Cause>): string {
  const message = cause.message ?? cause.reason ?? "";
  return cause.field === undefined || cause.field === "" ? message : `${cause.field}: ${message}`;
}

/** The word of all causes; undefined when they are of several kinds. Source: Kubernetes metav1.CauseType. */
function causeTypeOf(status: StatusBody | undefined): string | undefined {
  const types = new Set((status?.details?.causes ?? []).map(({ reason }) => reason));
  return types.size === 1 ? [...types][0] : undefined;
}

function causesOf(status: StatusBody | undefined): readonly string[] {
  return (status?.details?.causes ?? []).map(printCause);
}

/** Source: Kubernetes apimachinery, metav1.StatusReason and its HTTP status codes. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  401: "KUBE_UNAUTHORIZED",
  403: "KUBE_FORBIDDEN",
  404: "KUBE_NOT_FOUND",
  409: "KUBE_CONFLICT",
  410: "KUBE_EXPIRED",
};

/** A JSON patch that does not apply is answered with 422 without causes. */
function isTestFailure(status: StatusBody | undefined, asked: Asked): boolean {
  return asked.isTested === true && causesOf(status).length === 0;
}

/**
 * An admission webhook may refuse with any code, also with the one of a lost race. Source: Kubernetes apiserver
 * admission/plugin/webhook/errors ToStatusErr, whose words these are.
 */
function isDenied(status: StatusBody | undefined): boolean {
  return /^admission webhook ".*" denied the request/.test(status?.message ?? "");
}

const REASONS: Readonly<Record<string, ErrorCode>> = {
  AlreadyExists: "KUBE_ALREADY_EXISTS",
  Expired: "KUBE_EXPIRED",
};

/** What a status says that may be a refusal by rules or a change by others. */
function codeOfRefusal(status: StatusBody | undefined, asked: Asked): ErrorCode | undefined {
  if (isDenied(status)) return "KUBE_REFUSED";
  return isTestFailure(status, asked) ? "KUBE_CONFLICT" : undefined;
}

function codeOf(httpStatus: number, status: StatusBody | undefined, asked: Asked): ErrorCode {
  const told = REASONS[status?.reason ?? ""];
  if (told !== undefined) return told;
  const refusal =
    httpStatus === 409 || httpStatus === 422 ? codeOfRefusal(status, asked) : undefined;
  const other = httpStatus > 422 ? "KUBE_SERVER_FAILED" : "KUBE_REFUSED";
  return refusal ?? CODES[httpStatus] ?? other;
}

/**
 * The AppError for an answer that is no success. Its details carry `status` (HTTP), `message`, and `causes`:
 * one line for each cause, with the path of its field; `causeType` where all causes are of one.
 */
export function toStatusError(
  answer: { readonly status: number; readonly text: string },
  asked: Asked,
): AppError {
  const status = parseStatus(answer.text);
  const causes = causesOf(status);
  const causeType = causeTypeOf(status);
  const retryAfterSeconds = status?.details?.retryAfterSeconds;
  const details: Details = {
    verb: asked.verb,
    resource: asked.resource,
    object: asked.object,
    status: answer.status,
    message: status?.message ?? answer.text.trim().slice(0, TEXT_MAX),
    ...(causes.length > 0 && { causes: causes.join("\n") }),
    ...(causeType !== undefined && { causeType }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
  return new AppError(codeOf(answer.status, status, asked), details);
}
