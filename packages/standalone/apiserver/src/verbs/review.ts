// SPDX-License-Identifier: Apache-2.0
// Token and access reviews, which are not stored. Source: Kubernetes TokenReview, SubjectAccessReview.
import { type Authentication, TokenRejected } from "../auth/authentication.ts";
import { type Cause, badRequest, invalid } from "../meta/status.ts";
import { type Fields, asFields, isFields, asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import { type User, toUserInfo } from "../auth/user.ts";
import type { AccessAttributes, Authorizer } from "../auth/authorizer.ts";
import { forbiddenValue, invalidValue } from "../meta/causes.ts";
import { type Call, type Reply, toResourceRef } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import { readRequestObject } from "./options/field-validation.ts";

const SELF_REVIEW = "SelfSubjectAccessReview";
const LOCAL_REVIEW = "LocalSubjectAccessReview";

function parseAttributes(spec: Fields): AccessAttributes {
  const resourceAttribute = (key: string) => textAt(spec, "resourceAttributes", key);
  const path = textAt(spec, "nonResourceAttributes", "path");
  const isResource = isFields(spec["resourceAttributes"]);
  return {
    verb: isResource ? resourceAttribute("verb") : textAt(spec, "nonResourceAttributes", "verb"),
    group: resourceAttribute("group"),
    version: resourceAttribute("version"),
    resource: resourceAttribute("resource"),
    subresource: resourceAttribute("subresource"),
    namespace: resourceAttribute("namespace"),
    name: resourceAttribute("name"),
    path: isResource ? "" : path,
  };
}

function parseSubject(spec: Fields): User {
  const extra = Object.entries(asFields(spec["extra"])).map(([key, values]) => [
    key.toLowerCase(),
    asList(values).map(String),
  ]);
  return {
    name: textAt(spec, "user"),
    groups: asList(spec["groups"]).map(String),
    uid: textAt(spec, "uid"),
    extra: Object.fromEntries(extra) as Readonly<Record<string, readonly string[]>>,
  };
}

function attributeCauses(spec: Fields): Cause[] {
  const setsBoth = isFields(spec["resourceAttributes"]) && isFields(spec["nonResourceAttributes"]);
  const setsNeither =
    !isFields(spec["resourceAttributes"]) && !isFields(spec["nonResourceAttributes"]);
  const oneMessage = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
  return [
    ...(setsBoth
      ? [
          invalidValue(
            "spec.nonResourceAttributes",
            spec["nonResourceAttributes"],
            "cannot be specified in combination with resourceAttributes",
          ),
        ]
      : []),
    ...(setsNeither ? [invalidValue("spec.resourceAttributes", "null", oneMessage)] : []),
  ];
}

function subjectCauses(spec: Fields): Cause[] {
  const hasSubject = textAt(spec, "user") !== "" || asList(spec["groups"]).length > 0;
  const message = "at least one of user or group must be specified";
  return hasSubject ? [] : [invalidValue("spec.user", "", message)];
}

function metadataCauses(review: KubeObject, isLocal: boolean): Cause[] {
  const setFields = Object.entries(review.metadata).filter(
    ([key, value]) => value !== "" && !(isLocal && key === "namespace"),
  );
  const message = isLocal ? "must be empty except for namespace" : "must be empty";
  return setFields.length === 0
    ? []
    : [invalidValue("metadata", Object.fromEntries(setFields), message)];
}

function localCauses(spec: Fields, namespace: string): Cause[] {
  const requestedNamespace = textAt(spec, "resourceAttributes", "namespace");
  const isOtherNamespace = isFields(spec["resourceAttributes"]) && requestedNamespace !== namespace;
  const pathCauses = isFields(spec["nonResourceAttributes"])
    ? [forbiddenValue("spec.nonResourceAttributes", "disallowed on this kind of request")]
    : [];
  const message = "must match metadata.namespace";
  return [
    ...(isOtherNamespace
      ? [invalidValue("spec.resourceAttributes.namespace", requestedNamespace, message)]
      : []),
    ...pathCauses,
  ];
}

function reviewCauses(review: KubeObject, call: Call): Cause[] {
  const spec = asFields(review["spec"]);
  const { kind } = call.kind;
  return [
    ...attributeCauses(spec),
    ...(kind === SELF_REVIEW ? [] : subjectCauses(spec)),
    ...metadataCauses(review, kind === LOCAL_REVIEW),
    ...(kind === LOCAL_REVIEW ? localCauses(spec, call.namespace) : []),
  ];
}

function checkNamespace(review: KubeObject, call: Call): void {
  const { namespace = "" } = review.metadata;
  if (call.kind.kind === LOCAL_REVIEW && namespace !== "" && namespace !== call.namespace) {
    throw badRequest(
      "the namespace of the provided object does not match the namespace sent on the request",
    );
  }
}

function reviewAccess(
  review: KubeObject,
  call: Call,
  { authorizer }: { readonly authorizer: Authorizer },
): Fields {
  checkNamespace(review, call);
  const causes = reviewCauses(review, call);
  if (causes.length > 0) {
    throw invalid(toResourceRef(call.kind), "", causes);
  }
  const spec = asFields(review["spec"]);
  const user = call.kind.kind === SELF_REVIEW ? call.user : parseSubject(spec);
  const { allowed, reason } = authorizer.authorize(user, parseAttributes(spec));
  const namespaceField = call.namespace === "" ? {} : { namespace: call.namespace };
  return {
    ...review,
    metadata: { ...namespaceField, creationTimestamp: null },
    status: { allowed, ...(reason === "" ? {} : { reason }) },
  };
}

async function reviewToken(review: KubeObject, authentication: Authentication): Promise<Fields> {
  const token = textAt(review, "spec", "token");
  if (token === "") {
    throw badRequest("token is required for TokenReview in authentication");
  }
  const audiences = asList(valueAt(review, "spec", "audiences")).map(String);
  try {
    const tokenUser = await authentication.authenticateToken(token, audiences);
    const user = toUserInfo(tokenUser.user);
    return { authenticated: true, user, audiences: tokenUser.audiences };
  } catch (error) {
    if (error instanceof TokenRejected) {
      return { user: {}, error: error.message };
    }
    throw error;
  }
}

export interface ReviewDeps extends Pick<
  VerbDeps,
  "clock" | "authorizer" | "fairQueue" | "quotas"
> {
  readonly authentication: Authentication;
}

type ReviewHandler = (review: KubeObject, call: Call, deps: ReviewDeps) => Fields | Promise<Fields>;

const NO_METADATA = { creationTimestamp: null };

function reviewSelf(review: KubeObject, call: Call, deps: ReviewDeps): Fields {
  const metadata = { creationTimestamp: rfc3339(deps.clock.now()) };
  return { ...review, metadata, status: { userInfo: toUserInfo(call.user) } };
}

/** Returns the rules that apply to the user. The list is incomplete if a binding refers to a missing role. */
function reviewRules(review: KubeObject, call: Call, deps: ReviewDeps): Fields {
  const namespace = textAt(review, "spec", "namespace");
  if (namespace === "") {
    throw badRequest("no namespace on request");
  }
  const { rules, errors } = deps.authorizer.listUserRules(call.user, namespace);
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

const HANDLERS: Readonly<Record<string, ReviewHandler>> = {
  SelfSubjectReview: reviewSelf,
  SelfSubjectRulesReview: reviewRules,
  TokenReview: async (review, _call, deps) => ({
    ...review,
    metadata: NO_METADATA,
    status: await reviewToken(review, deps.authentication),
  }),
};

export async function answerReview(call: Call, deps: ReviewDeps): Promise<Reply> {
  const review = await readRequestObject(call, deps);
  const handler = HANDLERS[call.kind.kind] ?? reviewAccess;
  return { type: "fields", code: 201, fields: await handler(review, call, deps) };
}
