// SPDX-License-Identifier: Apache-2.0
// Questions: who is this token, who am I, and who may do what? They are answered and forgotten.
import type { Authentication } from "../../auth/authentication.ts";
import { badRequest } from "../../meta/status.ts";
import { type Fields, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import { answerAccess } from "./access-review.ts";
import type { Call, Reply } from "../call.ts";
import type { VerbDeps } from "../deps.ts";
import { readObjectOf } from "../options/field-validation.ts";
import { userInfo } from "../../auth/user.ts";
import { answerToken } from "./token-review.ts";

/** Who knows users by their tokens, and what they may. */
export interface ReviewDeps extends Pick<VerbDeps, "clock" | "authorizer" | "fairQueue"> {
  readonly authentication: Authentication;
}

type Answer = (review: KubeObject, call: Call, deps: ReviewDeps) => Fields | Promise<Fields>;

/** Questions have no names. */
const NO_METADATA = { creationTimestamp: null };

function answerSelf(review: KubeObject, call: Call, deps: ReviewDeps): Fields {
  const metadata = { creationTimestamp: rfc3339(deps.clock.now()) };
  return { ...review, metadata, status: { userInfo: userInfo(call.user) } };
}

/** All rules that apply to the user; where a role is missing there may be more. */
function answerRules(review: KubeObject, call: Call, deps: ReviewDeps): Fields {
  const namespace = textAt(review, "spec", "namespace");
  if (namespace === "") {
    throw badRequest("no namespace on request");
  }
  const { rules, errors } = deps.authorizer.rulesFor(call.user, namespace);
  const resourceRules = rules
    .filter((rule) => rule.resources.length > 0)
    .map(({ verbs, apiGroups, resources, resourceNames }) => ({
      verbs,
      apiGroups,
      resources,
      ...(resourceNames.length === 0 ? {} : { resourceNames }),
    }));
  const nonResourceRules = rules
    .filter((rule) => rule.nonResourceURLs.length > 0)
    .map(({ verbs, nonResourceURLs }) => ({ verbs, nonResourceURLs }));
  const status: Fields = {
    resourceRules,
    nonResourceRules,
    incomplete: errors.length > 0,
    ...(errors.length > 0 ? { evaluationError: errors.join(", ") } : {}),
  };
  return { ...review, metadata: NO_METADATA, spec: {}, status };
}

const ANSWERS: Readonly<Record<string, Answer>> = {
  SelfSubjectReview: answerSelf,
  SelfSubjectRulesReview: answerRules,
  TokenReview: async (review, _call, deps) => ({
    ...review,
    metadata: NO_METADATA,
    status: await answerToken(review, deps.authentication),
  }),
};

/** Answers the question in the body. Throws StatusErrors 400 and 422. */
export async function answerReview(call: Call, deps: ReviewDeps): Promise<Reply> {
  const review = await readObjectOf(call, deps);
  const answer = ANSWERS[call.kind.kind] ?? answerAccess;
  return { type: "fields", code: 201, fields: await answer(review, call, deps) };
}
