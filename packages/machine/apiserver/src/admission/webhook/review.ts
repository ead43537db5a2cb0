// SPDX-License-Identifier: Apache-2.0
// What is said to a webhook. Source: admission.k8s.io AdmissionReview.
import { userInfo } from "../../auth/user-info.ts";
import { type Kind, apiVersionOf } from "../../kinds/kind.ts";
import type { Fields } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { AdmissionQuestion } from "../admission.ts";
import { isNamespace } from "./match.ts";
import type { ReviewVersion } from "./webhook.ts";

/** How to put a question. */
export interface Asking {
  /** The version of the resource that the webhook wants. */
  readonly as: Kind;
  readonly uid: string;
  readonly version: ReviewVersion;
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
