// SPDX-License-Identifier: Apache-2.0
// AdmissionReview requests and responses. Source: admission.k8s.io/v1.
import { toUserInfo } from "../../auth/user.ts";
import { type Kind, apiVersionOf } from "../../kinds/kind.ts";
import { StatusError } from "../../meta/status.ts";
import { type Fields, asFields, isFields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { AdmissionRequest } from "../admission.ts";
import type { ReviewVersion, Webhook } from "./webhook.ts";

interface ReviewOptions {
  readonly wantedKind: Kind;
  readonly uid: string;
  readonly version: ReviewVersion;
}

export function isNamespace(kind: Pick<Kind, "group" | "resource">): boolean {
  return kind.group === "" && kind.resource === "namespaces";
}

function toReviewObject(
  request: AdmissionRequest,
  object: KubeObject | undefined,
  kind: Kind,
): KubeObject | null {
  if (object === undefined) {
    return null;
  }
  return request.bodyKind === undefined ? { ...object, apiVersion: apiVersionOf(kind) } : object;
}

function toResource(kind: Kind): Fields {
  return { group: kind.group, version: kind.version, resource: kind.resource };
}

function toKind(request: AdmissionRequest, kind: Kind): Fields {
  const { group, version, kind: name } = request.bodyKind ?? kind;
  return { group, version, kind: name };
}

function optionalField(name: string, value: string): Fields {
  return value === "" ? {} : { [name]: value };
}

/** Builds an AdmissionReview. For a Namespace object, the review's `request.namespace` is the object's name. */
export function toReview(
  request: AdmissionRequest,
  { wantedKind, uid, version }: ReviewOptions,
): Fields {
  const namespace = isNamespace(request.kind) ? request.name : request.namespace;
  return {
    kind: "AdmissionReview",
    apiVersion: `admission.k8s.io/${version}`,
    request: {
      uid,
      kind: toKind(request, wantedKind),
      resource: toResource(wantedKind),
      ...optionalField("subResource", request.subresource),
      requestKind: toKind(request, request.kind),
      requestResource: toResource(request.kind),
      ...optionalField("requestSubResource", request.subresource),
      ...optionalField("name", request.name),
      ...optionalField("namespace", namespace),
      operation: request.operation,
      userInfo: toUserInfo(request.user),
      object: toReviewObject(request, request.object, wantedKind),
      oldObject: toReviewObject(request, request.oldObject, wantedKind),
      dryRun: request.dryRun,
      options: request.options,
    },
  };
}

export interface Verdict {
  readonly denial: StatusError | undefined;
  /** JSON text of the patch; empty if the webhook changes nothing. */
  readonly patch: string;
  readonly patchType: string;
  readonly warnings: readonly string[];
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function decodePatch(value: unknown): string {
  if (value === undefined || value === null) {
    return "";
  }
  const text = typeof value === "string" ? value.replace(/[\r\n]/g, "") : undefined;
  if (text === undefined || !BASE64.test(text)) {
    const offset = text === undefined ? 0 : Math.max(0, text.search(/[^A-Za-z0-9+/]/));
    throw new Error(`illegal base64 data at input byte ${String(offset)}`);
  }
  return Buffer.from(text, "base64").toString("utf8");
}

/** Converts a denial to an error. Codes below 400 become 400, because a denial must not look like success. */
function toDenial(webhook: string, status: Fields): StatusError {
  const code = Number(status["code"] ?? 0);
  const denialMessage = `admission webhook "${webhook}" denied the request`;
  const explanation = textAt(status, "message") || textAt(status, "reason");
  const details = isFields(status["details"]) ? { details: status["details"] } : {};
  return new StatusError({
    code: code >= 400 ? code : 400,
    reason: textAt(status, "reason"),
    message:
      explanation === ""
        ? `${denialMessage} without explanation`
        : `${denialMessage}: ${explanation}`,
    ...details,
  });
}

function checkKind(review: unknown): void {
  const apiVersion = textAt(review, "apiVersion");
  const kind = textAt(review, "kind");
  if (apiVersion !== "admission.k8s.io/v1" || kind !== "AdmissionReview") {
    const [group = "", version = ""] = apiVersion.includes("/")
      ? apiVersion.split("/")
      : ["", apiVersion];
    throw new Error(
      `expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ${group}/${version}, Kind=${kind}`,
    );
  }
}

function patchFault(webhook: Webhook, patch: string, patchType: unknown): string | undefined {
  const hasType = patchType !== undefined && patchType !== null;
  if (!webhook.isMutating) {
    const field = patch === "" ? "patchType" : "patch";
    return patch !== "" || hasType
      ? `validating webhook may not return response.${field}`
      : undefined;
  }
  if (patch === "") {
    return hasType ? "webhook returned response.patchType but not response.patch" : undefined;
  }
  if (!hasType) {
    return "webhook returned response.patch but not response.patchType";
  }
  return patchType === "" ? 'webhook returned invalid response.patchType of ""' : undefined;
}

function checkAllowedType(response: Fields): void {
  const { allowed } = response;
  if (allowed !== undefined && allowed !== null && typeof allowed !== "boolean") {
    throw new Error(
      `json: cannot unmarshal ${typeof allowed} into Go struct field AdmissionResponse.response.allowed of type bool`,
    );
  }
}

/** Parses the webhook's response. @throws Error if the response is malformed */
export function parseReview(review: unknown, webhook: Webhook, uid: string): Verdict {
  const response = valueAt(review, "response");
  if (!isFields(response)) {
    throw new Error("webhook response was absent");
  }
  checkAllowedType(response);
  const patch = decodePatch(response["patch"]);
  if (webhook.reviewVersion === "v1") {
    if (response["uid"] !== uid) {
      throw new Error(`expected response.uid="${uid}", got "${textAt(response, "uid")}"`);
    }
    checkKind(review);
    const fault = patchFault(webhook, patch, response["patchType"]);
    if (fault !== undefined) {
      throw new Error(fault);
    }
  }
  const allowed = response["allowed"] === true;
  return {
    denial: allowed ? undefined : toDenial(webhook.name, asFields(response["status"])),
    patch: webhook.isMutating ? patch : "",
    // In v1beta1, every patch is a JSON patch.
    patchType: webhook.reviewVersion === "v1" ? textAt(response, "patchType") : "JSONPatch",
    warnings: asList(response["warnings"]).map(String),
  };
}
