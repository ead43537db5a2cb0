// SPDX-License-Identifier: Apache-2.0
// AdmissionReview: the request to a webhook, and its response. Source: admission.k8s.io/v1.
import { userInfo } from "../../auth/user.ts";
import { type Kind, apiVersionOf } from "../../kinds/kind.ts";
import { StatusError } from "../../meta/status.ts";
import { type Fields, fieldsOf, isFields, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { AdmissionQuestion } from "../admission.ts";
import type { ReviewVersion, Webhook } from "./webhook.ts";

/** How to put a question. */
interface Asking {
  /** The version of the resource that the webhook wants. */
  readonly as: Kind;
  readonly uid: string;
  readonly version: ReviewVersion;
}

/** Whether the question is about a namespace itself. */
export function isNamespace(kind: Pick<Kind, "group" | "resource">): boolean {
  return kind.group === "" && kind.resource === "namespaces";
}

function objectIn(
  question: AdmissionQuestion,
  object: KubeObject | undefined,
  kind: Kind,
): KubeObject | null {
  if (object === undefined) {
    return null;
  }
  return question.bodyKind === undefined ? { ...object, apiVersion: apiVersionOf(kind) } : object;
}

function resourceOf(kind: Kind): Fields {
  return { group: kind.group, version: kind.version, resource: kind.resource };
}

function kindOf(question: AdmissionQuestion, kind: Kind): Fields {
  const { group, version, kind: name } = question.bodyKind ?? kind;
  return { group, version, kind: name };
}

function named(name: string, value: string): Fields {
  return value === "" ? {} : { [name]: value };
}

/** The question as a review. A namespace is in itself. */
export function toReview(question: AdmissionQuestion, { as, uid, version }: Asking): Fields {
  const namespace = isNamespace(question.kind) ? question.name : question.namespace;
  return {
    kind: "AdmissionReview",
    apiVersion: `admission.k8s.io/${version}`,
    request: {
      uid,
      kind: kindOf(question, as),
      resource: resourceOf(as),
      ...named("subResource", question.subresource),
      requestKind: kindOf(question, question.kind),
      requestResource: resourceOf(question.kind),
      ...named("requestSubResource", question.subresource),
      ...named("name", question.name),
      ...named("namespace", namespace),
      operation: question.operation,
      userInfo: userInfo(question.user),
      object: objectIn(question, question.object, as),
      oldObject: objectIn(question, question.oldObject, as),
      dryRun: question.dryRun,
      options: question.options,
    },
  };
}

/** An answer that makes sense. */
export interface Verdict {
  /** Why it is refused; undefined: allowed. */
  readonly denial: StatusError | undefined;
  /** Text of a JSON patch; empty where nothing is changed. */
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
    const at = text === undefined ? 0 : Math.max(0, text.search(/[^A-Za-z0-9+/]/));
    throw new Error(`illegal base64 data at input byte ${String(at)}`);
  }
  return Buffer.from(text, "base64").toString("utf8");
}

/** A refusal is never a success, whatever the webhook says. */
function denialBy(webhook: string, status: Fields): StatusError {
  const given = Number(status["code"] ?? 0);
  const denied = `admission webhook "${webhook}" denied the request`;
  const why = textAt(status, "message") || textAt(status, "reason");
  const details = isFields(status["details"]) ? { details: status["details"] } : {};
  return new StatusError({
    code: given >= 400 ? given : 400,
    reason: textAt(status, "reason"),
    message: why === "" ? `${denied} without explanation` : `${denied}: ${why}`,
    ...details,
  });
}

function checkKind(answer: unknown): void {
  const apiVersion = textAt(answer, "apiVersion");
  const kind = textAt(answer, "kind");
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
  if (!webhook.mutating) {
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

function checkTypes(response: Fields): void {
  const { allowed } = response;
  if (allowed !== undefined && allowed !== null && typeof allowed !== "boolean") {
    throw new Error(
      `json: cannot unmarshal ${typeof allowed} into Go struct field AdmissionResponse.response.allowed of type bool`,
    );
  }
}

/** Reads an answer. Throws an Error where it makes no sense. */
export function readAnswer(answer: unknown, webhook: Webhook, uid: string): Verdict {
  const response = valueAt(answer, "response");
  if (!isFields(response)) {
    throw new Error("webhook response was absent");
  }
  checkTypes(response);
  const patch = decodePatch(response["patch"]);
  if (webhook.reviewVersion === "v1") {
    if (response["uid"] !== uid) {
      throw new Error(`expected response.uid="${uid}", got "${textAt(response, "uid")}"`);
    }
    checkKind(answer);
    const fault = patchFault(webhook, patch, response["patchType"]);
    if (fault !== undefined) {
      throw new Error(fault);
    }
  }
  const allowed = response["allowed"] === true;
  return {
    denial: allowed ? undefined : denialBy(webhook.name, fieldsOf(response["status"])),
    patch: webhook.mutating ? patch : "",
    // The first version of the format did not ask for a type.
    patchType: webhook.reviewVersion === "v1" ? textAt(response, "patchType") : "JSONPatch",
    warnings: listOf(response["warnings"]).map(String),
  };
}
