// SPDX-License-Identifier: Apache-2.0
// The AdmissionReview protocol. Source: Kubernetes admission.k8s.io/v1.
import {
  isJsonObject,
  printGoJson,
  type Cause,
  type JsonPatchOperation,
  type JsonObject,
} from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { User } from "../callers.ts";
import type { Metrics } from "@patchbay/telemetry";

/** `object` and `oldObject` are unvalidated in the mutating webhook. */
export interface AdmissionRequest {
  readonly uid: string;
  readonly kind: string;
  readonly operation: "CREATE" | "UPDATE";
  /** Empty for the object itself. */
  readonly subresource: string;
  readonly namespace: string;
  /** Name of the object, or of the parent of a subresource; empty if the server generates it. */
  readonly name: string;
  readonly user: User;
  readonly dryRun?: boolean;
  readonly object: unknown;
  readonly oldObject: unknown;
}

/** 403: the user lacks permission. 422: the object is invalid. 429: try again later. */
export type Verdict =
  | {
      readonly allowed: true;
      readonly warnings?: readonly string[];
      readonly patch?: readonly JsonPatchOperation[];
    }
  | {
      readonly allowed: false;
      readonly code: 400 | 403 | 422 | 429;
      readonly message: string;
      readonly causes: readonly Cause[];
    };

export const ALLOWED: Verdict = { allowed: true };

export function asObject(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function asTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(asText).filter((text) => text !== "") : [];
}

function parseUser(value: unknown): User {
  const { username, groups, extra } = asObject(value);
  const claims = Object.entries(asObject(extra)).map(([name, texts]) => [name, asTexts(texts)]);
  return {
    name: asText(username),
    groups: asTexts(groups),
    // The entries are pairs of a name and texts.
    extra: Object.fromEntries(claims) as NonNullable<User["extra"]>,
  };
}

/** @throws AppError with API_MALFORMED when the body is not an AdmissionReview */
export function parseReview(body: unknown): AdmissionRequest {
  const request = asObject(asObject(body)["request"]);
  const operation = request["operation"];
  const uid = asText(request["uid"]);
  if (uid === "" || (operation !== "CREATE" && operation !== "UPDATE")) {
    const reason = "request.uid or an operation CREATE or UPDATE is missing";
    throw new AppError("API_MALFORMED", { what: "the AdmissionReview", reason });
  }
  return {
    uid,
    operation,
    kind: asText(asObject(request["kind"])["kind"]),
    subresource: asText(request["subResource"]),
    ...(request["dryRun"] === true && { dryRun: true }),
    namespace: asText(request["namespace"]),
    name: asText(request["name"]),
    user: parseUser(request["userInfo"]),
    object: request["object"],
    oldObject: request["oldObject"],
  };
}

/** Source: Kubernetes apimachinery StatusReason. */
const REASONS = {
  400: "Invalid",
  403: "Forbidden",
  422: "Invalid",
  429: "TooManyRequests",
} as const;

function toStatus(verdict: Extract<Verdict, { allowed: false }>): object {
  const { code, message, causes } = verdict;
  return {
    metadata: {},
    status: "Failure",
    message,
    reason: REASONS[code],
    ...(causes.length === 0 ? {} : { details: { causes } }),
    code,
  };
}

function printAllowed(verdict: Extract<Verdict, { allowed: true }>): object {
  const { warnings = [], patch = [] } = verdict;
  const text = Buffer.from(printGoJson(patch)).toString("base64");
  return {
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(patch.length === 0 ? {} : { patchType: "JSONPatch", patch: text }),
  };
}

/** Prints the response with the uid of the request; the patch is JSON in base64. */
export function printReview(request: AdmissionRequest, verdict: Verdict): object {
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    response: {
      uid: request.uid,
      allowed: verdict.allowed,
      ...(verdict.allowed ? printAllowed(verdict) : { status: toStatus(verdict) }),
    },
  };
}

export function toVerdict(causes: readonly Cause[], warnings: readonly string[] = []): Verdict {
  if (causes.length === 0) return { allowed: true, warnings };
  const message = causes.map((cause) => cause.message).join(", ");
  return { allowed: false, code: 422, message, causes };
}

export interface Decision {
  readonly webhook: "mutate" | "validate";
  readonly operation: "CREATE" | "UPDATE";
  readonly decision: "allowed" | "denied" | "failed";
}

export function createDecisionCounter(
  metrics: Pick<Metrics, "addCounter">,
): (decision: Decision) => void {
  const count = metrics.addCounter({
    name: "patchbay_admission_decisions_total",
    help: "Admission requests, by result.",
    labelNames: ["webhook", "operation", "decision"],
  });
  return (decision) => {
    count({ ...decision });
  };
}
