// SPDX-License-Identifier: Apache-2.0
// Review kinds, for example SubjectAccessReview. The response to a create request contains the result, and nothing is stored.
import { type Kind, defineKind } from "../kind.ts";

function defineReview(group: string, resource: string, kind: string): Kind {
  return defineKind({
    group,
    version: "v1",
    resource,
    kind,
    namespaced: resource === "localsubjectaccessreviews",
    verbs: ["create"],
  });
}

export const REVIEW_KINDS: readonly Kind[] = [
  defineReview("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
  defineReview("authentication.k8s.io", "tokenreviews", "TokenReview"),
  defineReview("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview"),
  defineReview("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
  defineReview("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
  defineReview("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
];

export function isReview(kind: Kind): boolean {
  return REVIEW_KINDS.includes(kind);
}
