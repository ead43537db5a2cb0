// SPDX-License-Identifier: Apache-2.0
// May somebody do something? Source: Kubernetes SubjectAccessReview and its kin.
import type { AccessAttributes, Authorizer } from "../../auth/authorizer.ts";
import type { User } from "../../auth/user.ts";
import { type Cause, badRequest, invalid } from "../../meta/status.ts";
import { forbiddenValue, invalidValue } from "../../meta/causes.ts";
import { type Fields, fieldsOf, isFields, listOf, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { type Call, aboutOf } from "../call.ts";

const SELF = "SelfSubjectAccessReview";
const LOCAL = "LocalSubjectAccessReview";

function attributesOf(spec: Fields): AccessAttributes {
  const of = (key: string) => textAt(spec, "resourceAttributes", key);
  const path = textAt(spec, "nonResourceAttributes", "path");
  const isResource = isFields(spec["resourceAttributes"]);
  return {
    verb: isResource ? of("verb") : textAt(spec, "nonResourceAttributes", "verb"),
    group: of("group"),
    version: of("version"),
    resource: of("resource"),
    subresource: of("subresource"),
    namespace: of("namespace"),
    name: of("name"),
    path: isResource ? "" : path,
  };
}

function subjectOf(spec: Fields): User {
  const extra = Object.entries(fieldsOf(spec["extra"])).map(([key, values]) => [
    key.toLowerCase(),
    listOf(values).map(String),
  ]);
  return {
    name: textAt(spec, "user"),
    groups: listOf(spec["groups"]).map(String),
    uid: textAt(spec, "uid"),
    // The entries were made of keys and lists of text.
    extra: Object.fromEntries(extra) as Readonly<Record<string, readonly string[]>>,
  };
}

/** Exactly one of the two kinds of attributes must be there. */
function attributeCauses(spec: Fields): Cause[] {
  const both = isFields(spec["resourceAttributes"]) && isFields(spec["nonResourceAttributes"]);
  const none = !isFields(spec["resourceAttributes"]) && !isFields(spec["nonResourceAttributes"]);
  const one = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
  return [
    ...(both
      ? [
          invalidValue(
            "spec.nonResourceAttributes",
            spec["nonResourceAttributes"],
            "cannot be specified in combination with resourceAttributes",
          ),
        ]
      : []),
    ...(none ? [invalidValue("spec.resourceAttributes", "null", one)] : []),
  ];
}

function subjectCauses(spec: Fields): Cause[] {
  const named = textAt(spec, "user") !== "" || listOf(spec["groups"]).length > 0;
  const why = "at least one of user or group must be specified";
  return named ? [] : [invalidValue("spec.user", "", why)];
}

function metadataCauses(review: KubeObject, isLocal: boolean): Cause[] {
  const given = Object.entries(review.metadata).filter(
    ([key, value]) => value !== "" && !(isLocal && key === "namespace"),
  );
  const why = isLocal ? "must be empty except for namespace" : "must be empty";
  return given.length === 0 ? [] : [invalidValue("metadata", Object.fromEntries(given), why)];
}

function localCauses(spec: Fields, namespace: string): Cause[] {
  const other = textAt(spec, "resourceAttributes", "namespace");
  const elsewhere = isFields(spec["resourceAttributes"]) && other !== namespace;
  const path = isFields(spec["nonResourceAttributes"])
    ? [forbiddenValue("spec.nonResourceAttributes", "disallowed on this kind of request")]
    : [];
  const why = "must match metadata.namespace";
  return [
    ...(elsewhere ? [invalidValue("spec.resourceAttributes.namespace", other, why)] : []),
    ...path,
  ];
}

function causesOf(review: KubeObject, call: Call): Cause[] {
  const spec = fieldsOf(review["spec"]);
  const { kind } = call.kind;
  return [
    ...attributeCauses(spec),
    ...(kind === SELF ? [] : subjectCauses(spec)),
    ...metadataCauses(review, kind === LOCAL),
    ...(kind === LOCAL ? localCauses(spec, call.namespace) : []),
  ];
}

function checkNamespace(review: KubeObject, call: Call): void {
  const { namespace = "" } = review.metadata;
  if (call.kind.kind === LOCAL && namespace !== "" && namespace !== call.namespace) {
    throw badRequest(
      "the namespace of the provided object does not match the namespace sent on the request",
    );
  }
}

/** Answers. Throws StatusErrors 400 and 422. */
export function answerAccess(
  review: KubeObject,
  call: Call,
  { authorizer }: { readonly authorizer: Authorizer },
): Fields {
  checkNamespace(review, call);
  const causes = causesOf(review, call);
  if (causes.length > 0) {
    throw invalid(aboutOf(call.kind), "", causes);
  }
  const spec = fieldsOf(review["spec"]);
  const user = call.kind.kind === SELF ? call.user : subjectOf(spec);
  const { allowed, reason } = authorizer.authorize(user, attributesOf(spec));
  const local = call.namespace === "" ? {} : { namespace: call.namespace };
  return {
    ...review,
    metadata: { ...local, creationTimestamp: null },
    status: { allowed, ...(reason === "" ? {} : { reason }) },
  };
}
