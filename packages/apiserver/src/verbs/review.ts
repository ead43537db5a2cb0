// SPDX-License-Identifier: Apache-2.0
// Questions: who is this token, and who may do what?
import type { Authentication } from "../auth/authentication.ts";
import { parseObject } from "../http/body.ts";
import type { AccessAttributes, Authorizer, User } from "../auth/user.ts";
import { fieldsOf, listOf, textAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Call, Reply } from "./call.ts";
import { toObject } from "./decode.ts";

/** Who can answer. */
export interface ReviewDeps {
  readonly authentication: Authentication;
  readonly authorizer: Authorizer;
}

function attributesOf(review: KubeObject): AccessAttributes {
  const spec = fieldsOf(review["spec"]);
  const of = (key: string) => textAt(spec, "resourceAttributes", key);
  const path = textAt(spec, "nonResourceAttributes", "path");
  return {
    verb: path === "" ? of("verb") : textAt(spec, "nonResourceAttributes", "verb"),
    group: of("group"),
    version: of("version"),
    resource: of("resource"),
    subresource: of("subresource"),
    namespace: of("namespace"),
    name: of("name"),
    path,
  };
}

function subjectOf(call: Call, review: KubeObject): User {
  const spec = fieldsOf(review["spec"]);
  return call.kind.kind === "SelfSubjectAccessReview"
    ? call.user
    : {
        name: textAt(spec, "user"),
        groups: [...listOf(spec["groups"]).map(String), "system:authenticated"],
      };
}

function reviewToken(review: KubeObject, deps: ReviewDeps): KubeObject {
  const user = deps.authentication.findByToken(textAt(review, "spec", "token"));
  const status =
    user === undefined
      ? { user: {}, error: "invalid bearer token" }
      : { authenticated: true, user: { username: user.name, groups: user.groups } };
  return { ...review, status };
}

/** Answers the question in the body. Nothing is stored. */
export function answerReview(call: Call, deps: ReviewDeps): Reply {
  const review = toObject(call.kind, parseObject(call.body));
  if (call.kind.kind === "TokenReview") {
    return { type: "object", code: 201, object: reviewToken(review, deps) };
  }
  if (call.kind.kind === "SelfSubjectReview") {
    const userInfo = { username: call.user.name, groups: call.user.groups };
    return { type: "object", code: 201, object: { ...review, status: { userInfo } } };
  }
  const decision = deps.authorizer.authorize(subjectOf(call, review), attributesOf(review));
  const status = {
    allowed: decision.allowed,
    ...(decision.reason === "" ? {} : { reason: decision.reason }),
  };
  return { type: "object", code: 201, object: { ...review, status } };
}
