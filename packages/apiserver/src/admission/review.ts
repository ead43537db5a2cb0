// SPDX-License-Identifier: Apache-2.0
// What is said to a webhook, and what it answers. Source: admission.k8s.io/v1 AdmissionReview.
import { StatusError } from "../http/status.ts";
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import {
  type Fields,
  fieldsOf,
  isFields,
  listOf,
  parseJson,
  textAt,
  valueAt,
} from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { AdmissionQuestion } from "./admission.ts";

/** An answer that allows. */
export interface Approval {
  /** Operations of a JSON patch; undefined where nothing is changed. */
  readonly patch: unknown;
  readonly warnings: readonly string[];
}

function inVersion(object: KubeObject | undefined, kind: Kind): KubeObject | null {
  return object === undefined ? null : { ...object, apiVersion: apiVersionOf(kind) };
}

function resourceOf(kind: Kind): Fields {
  return { group: kind.group, version: kind.version, resource: kind.resource };
}

function kindOf(kind: Kind): Fields {
  return { group: kind.group, version: kind.version, kind: kind.kind };
}

/** The question as a review; `as`: the version that the webhook wants. */
export function toReview(question: AdmissionQuestion, as: Kind, uid: string): Fields {
  const { subresource } = question;
  const sub =
    subresource === "" ? {} : { subResource: subresource, requestSubResource: subresource };
  return {
    kind: "AdmissionReview",
    apiVersion: "admission.k8s.io/v1",
    request: {
      uid,
      kind: kindOf(as),
      resource: resourceOf(as),
      requestKind: kindOf(question.kind),
      requestResource: resourceOf(question.kind),
      ...sub,
      name: question.name,
      ...(question.namespace === "" ? {} : { namespace: question.namespace }),
      operation: question.operation,
      userInfo: { username: question.user.name, groups: question.user.groups },
      object: inVersion(question.object, as),
      oldObject: inVersion(question.oldObject, as),
      dryRun: question.dryRun,
      options: question.options,
    },
  };
}

function refusal(webhook: string, status: Fields): StatusError {
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

/**
 * Reads an answer. Throws a StatusError where the webhook denies, and an Error where the answer makes no sense.
 */
export function readAnswer(
  answer: unknown,
  expected: { readonly webhook: string; readonly uid: string },
): Approval {
  const response = fieldsOf(valueAt(answer, "response"));
  if (response["uid"] !== expected.uid) {
    throw new Error(`expected response.uid="${expected.uid}", got "${textAt(response, "uid")}"`);
  }
  if (response["allowed"] !== true) {
    throw refusal(expected.webhook, fieldsOf(response["status"]));
  }
  const patch = textAt(response, "patch");
  if (patch !== "" && response["patchType"] !== "JSONPatch") {
    throw new Error(`unsupported patch type "${textAt(response, "patchType")}"`);
  }
  return {
    patch: patch === "" ? undefined : parseJson(Buffer.from(patch, "base64").toString("utf8")),
    warnings: listOf(response["warnings"]).map(String),
  };
}
