// SPDX-License-Identifier: Apache-2.0
import { isJsonObject, parseJson } from "@patchbay/api/json";
import type { Cause, StatusBody } from "@patchbay/api/kubernetes";
import { AppError, type Details, type ErrorCode } from "@patchbay/base";

export interface RequestDescription {
  readonly verb: string;
  /** Plural name of the resource, or the path of a raw request. */
  readonly resource: string;
  /** Key of the object, `namespace/name`. Empty if the request concerns no single object. */
  readonly object: string;
  readonly hasTest?: boolean;
}

const TEXT_MAX = 300;

export function parseStatus(text: string): StatusBody | undefined {
  const body = parseJson(text);
  const isStatus = isJsonObject(body) && body["kind"] === "Status";
  return isStatus ? (body as unknown as StatusBody) : undefined;
}

function printCause(cause: Partial<Cause>): string {
  const message = cause.message ?? cause.reason ?? "";
  return cause.field === undefined || cause.field === "" ? message : `${cause.field}: ${message}`;
}

/** Returns the reason that all causes share. Returns undefined if the causes differ or none exists. Source: Kubernetes metav1.CauseType */
function findCauseType(status: StatusBody | undefined): string | undefined {
  const types = new Set((status?.details?.causes ?? []).map(({ reason }) => reason));
  return types.size === 1 ? [...types][0] : undefined;
}

function printCauses(status: StatusBody | undefined): readonly string[] {
  return (status?.details?.causes ?? []).map(printCause);
}

/** Error codes by HTTP status. Source: Kubernetes apimachinery, metav1.StatusReason */
const CODE_BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  401: "KUBE_UNAUTHORIZED",
  403: "KUBE_FORBIDDEN",
  404: "KUBE_NOT_FOUND",
  409: "KUBE_CONFLICT",
  410: "KUBE_EXPIRED",
};

/** Checks whether a `test` operation of a JSON patch failed. The server's 422 response to such a failure has no causes. */
function isTestFailure(status: StatusBody | undefined, request: RequestDescription): boolean {
  return request.hasTest === true && printCauses(status).length === 0;
}

/** Checks for a denial by an admission webhook. Source: Kubernetes admission/plugin/webhook/errors ToStatusErr */
function isDenied(status: StatusBody | undefined): boolean {
  return /^admission webhook ".*" denied the request/.test(status?.message ?? "");
}

const CODE_BY_REASON: Readonly<Record<string, ErrorCode>> = {
  AlreadyExists: "KUBE_ALREADY_EXISTS",
  Expired: "KUBE_EXPIRED",
};

function findRefusalCode(
  status: StatusBody | undefined,
  request: RequestDescription,
): ErrorCode | undefined {
  if (isDenied(status)) return "KUBE_REFUSED";
  return isTestFailure(status, request) ? "KUBE_CONFLICT" : undefined;
}

function findCode(
  httpStatus: number,
  status: StatusBody | undefined,
  request: RequestDescription,
): ErrorCode {
  const codeByReason = CODE_BY_REASON[status?.reason ?? ""];
  if (codeByReason !== undefined) return codeByReason;
  const refusal =
    httpStatus === 409 || httpStatus === 422 ? findRefusalCode(status, request) : undefined;
  const codeByStatus = httpStatus > 422 ? "KUBE_SERVER_FAILED" : "KUBE_REFUSED";
  return refusal ?? CODE_BY_STATUS[httpStatus] ?? codeByStatus;
}

/** Converts an error response. The detail `causes` has one line per cause. The detail `causeType` is the reason that all causes share. */
export function toStatusError(
  answer: { readonly status: number; readonly text: string },
  request: RequestDescription,
): AppError {
  const status = parseStatus(answer.text);
  const causes = printCauses(status);
  const causeType = findCauseType(status);
  const retryAfterSeconds = status?.details?.retryAfterSeconds;
  const details: Details = {
    verb: request.verb,
    resource: request.resource,
    object: request.object,
    status: answer.status,
    message: status?.message ?? answer.text.trim().slice(0, TEXT_MAX),
    ...(causes.length > 0 && { causes: causes.join("\n") }),
    ...(causeType !== undefined && { causeType }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
  return new AppError(findCode(answer.status, status, request), details);
}
