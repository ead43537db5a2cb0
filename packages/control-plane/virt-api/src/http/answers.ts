// SPDX-License-Identifier: Apache-2.0
// Subresource requests and their responses: Kubernetes `metav1.Status` bodies.
import type { User } from "../callers.ts";
import type { Cause, KubeObject, ResourceType, StatusBody } from "@patchbay/api";
import type { HandlerAnswer } from "../handlers/client.ts";
import { CATALOGUE, isAppError, type AppError } from "@patchbay/base";
import type { Refusal } from "@patchbay/core/requests";

/** Namespace and name, from the path, are the key of the VM or VMI. */
export interface Call {
  readonly namespace: string;
  readonly name: string;
  readonly user: User;
  /** Set by `?dryRun=All`, or by `dryRun: ["All"]` in the body. */
  readonly dryRun: boolean;
  readonly query: URLSearchParams;
  /** The parsed JSON; undefined without a body. */
  readonly body: unknown;
}

/** Errors become responses, by their code. */
export type CallHandler = (call: Call) => Promise<Answer>;

export interface Answer {
  readonly code: number;
  readonly body: unknown;
  /** Media type of a binary body; unset for JSON. */
  readonly type?: string;
}

export interface About {
  readonly type: ResourceType<KubeObject>;
  readonly name: string;
}

/** Source: Kubernetes metav1.StatusReason. */
const REASONS: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  409: "Conflict",
  413: "RequestEntityTooLarge",
  415: "UnsupportedMediaType",
  422: "Invalid",
  429: "TooManyRequests",
  503: "ServiceUnavailable",
  504: "Timeout",
};

interface Failure {
  readonly code: number;
  readonly message: string;
  readonly reason?: string;
  readonly about?: About;
  readonly causes?: readonly Cause[];
}

function buildDetails(failure: Failure): StatusBody["details"] {
  const { about, causes = [] } = failure;
  const details = {
    ...(about === undefined
      ? {}
      : { name: about.name, group: about.type.group, kind: about.type.resource }),
    ...(causes.length === 0 ? {} : { causes }),
  };
  return Object.keys(details).length === 0 ? undefined : details;
}

export function toFailureAnswer(failure: Failure): Answer {
  const details = buildDetails(failure);
  const body: StatusBody = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: failure.message,
    reason: failure.reason ?? REASONS[failure.code] ?? "InternalError",
    ...(details === undefined ? {} : { details }),
    code: failure.code,
  };
  return { code: failure.code, body };
}

export function toRefusalAnswer(refusal: Refusal, about: About): Answer {
  return toFailureAnswer({ ...refusal, about });
}

/** Responds with 404, with the API server's message. */
export function toNotFoundAnswer(about: About): Answer {
  const { group, resource } = about.type;
  return toFailureAnswer({
    code: 404,
    message: `${resource}${group === "" ? "" : `.${group}`} "${about.name}" not found`,
    about,
  });
}

export function toNodeAnswer({ code, body }: HandlerAnswer, about: About): Answer {
  const { message } = body;
  const text = typeof message === "string" ? message : "the node gave no reason";
  return toFailureAnswer({ code, message: text, about });
}

export function toConflictAnswer(about: About, text: string): Answer {
  const conflict = `${about.type.resource} "${about.name}" is being changed by other clients; try again`;
  const message = text === "" ? conflict : `${conflict} (${text})`;
  return toFailureAnswer({ code: 409, message, about });
}

function toSuccessAnswer(code: number, message: string): Answer {
  const body: StatusBody = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    message,
    code,
  };
  return { code, body };
}

/** Responds with 202: the change will happen, or would happen in a dry run. */
export function toAcceptedAnswer(message: string): Answer {
  return toSuccessAnswer(202, message);
}

/** Responds with 200: the change has happened. */
export function toDoneAnswer(message: string): Answer {
  return toSuccessAnswer(200, message);
}

/** The Kubernetes client prints one line for each cause, `FIELD: MESSAGE`. */
function listCauses(error: AppError): readonly Cause[] {
  const { causes } = error.details;
  if (typeof causes !== "string" || causes === "") return [];
  return causes.split("\n").map((line) => {
    const colon = line.indexOf(": ");
    const [field, message] = colon < 0 ? ["", line] : [line.slice(0, colon), line.slice(colon + 2)];
    return { reason: "FieldValueInvalid", field, message };
  });
}

/** Forwards errors of the API server with their status. */
export function toErrorAnswer(error: unknown): Answer {
  if (!isAppError(error)) return toFailureAnswer({ code: 500, message: "internal error" });
  const { status, message } = error.details;
  const isForwarded = error.code.startsWith("KUBE_") && typeof status === "number";
  return toFailureAnswer({
    code: isForwarded ? status : CATALOGUE[error.code].http,
    message: isForwarded && typeof message === "string" ? message : error.message,
    causes: listCauses(error),
  });
}
