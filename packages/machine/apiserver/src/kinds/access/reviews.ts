// SPDX-License-Identifier: Apache-2.0
// Kinds that are questions: they are created, answered and never stored.
import { type Kind, defineKind } from "../kind.ts";

function review(group: string, resource: string, kind: string): Kind {
  return defineKind({
    group,
    version: "v1",
    resource,
    kind,
    namespaced: resource === "localsubjectaccessreviews",
    verbs: ["create"],
  });
}

/** Questions about who someone is and what they may do. */
export const REVIEW_KINDS: readonly Kind[] = [
  review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
  review("authentication.k8s.io", "tokenreviews", "TokenReview"),
  review("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview"),
  review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
  review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
  review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
];

/** Whether a kind is a question. */
export function isReview(kind: Kind): boolean {
  return REVIEW_KINDS.includes(kind);
}
