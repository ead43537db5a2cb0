// SPDX-License-Identifier: Apache-2.0
// Parsing of AdmissionReviews, and their responses.
import { describe, expect, test } from "vitest";
import { ALLOWED, asObject, parseReview, printReview, toVerdict, type Verdict } from "./review.ts";

const CAUSE = { reason: "FieldValueInvalid", field: "spec", message: "is bad" } as const;
const OTHER = { ...CAUSE, message: "is worse" };

describe("parseReview", () => {
  test("reads all fields", () => {
    const request = {
      uid: "7",
      operation: "UPDATE",
      kind: { kind: "VirtualMachine" },
      subResource: "status",
      namespace: "ns",
      name: "vm",
      userInfo: { username: "alice", groups: ["a", "", 1, "b"], extra: { claim: ["x", 2], no: 1 } },
      object: { a: 1 },
      oldObject: { a: 0 },
    };
    expect(parseReview({ request })).toEqual({
      uid: "7",
      operation: "UPDATE",
      kind: "VirtualMachine",
      subresource: "status",
      namespace: "ns",
      name: "vm",
      user: { name: "alice", groups: ["a", "b"], extra: { claim: ["x"], no: [] } },
      object: { a: 1 },
      oldObject: { a: 0 },
    });
  });

  test("requires only uid and operation", () => {
    expect(parseReview({ request: { uid: "7", operation: "CREATE", userInfo: [] } })).toEqual({
      uid: "7",
      operation: "CREATE",
      kind: "",
      subresource: "",
      namespace: "",
      name: "",
      object: undefined,
      oldObject: undefined,
      user: { name: "", groups: [], extra: {} },
    });
  });

  test.each([
    undefined,
    null,
    [],
    {},
    { request: { operation: "CREATE" } },
    { request: { uid: 1, operation: "CREATE" } },
    { request: { uid: "1", operation: "DELETE" } },
    { request: { uid: "1" } },
  ])("rejects %j", (body) => {
    expect(() => parseReview(body)).toThrow("the AdmissionReview cannot be parsed");
  });
});

test.each([
  { value: { a: 1 }, want: { a: 1 } },
  { value: [1], want: {} },
  { value: null, want: {} },
  { value: "text", want: {} },
])("the fields of $value are $want", ({ value, want }) => {
  expect(asObject(value)).toEqual(want);
});

describe("causes", () => {
  test("without causes, the verdict allows with warnings", () => {
    expect(toVerdict([], ["w"])).toEqual({ allowed: true, warnings: ["w"] });
    expect(toVerdict([])).toEqual({ allowed: true, warnings: [] });
  });

  test("with causes, the verdict rejects with all messages", () => {
    expect(toVerdict([CAUSE, OTHER], ["w"])).toEqual({
      allowed: false,
      code: 422,
      message: "is bad, is worse",
      causes: [CAUSE, OTHER],
    });
  });
});

describe("printReview", () => {
  const REQUEST = parseReview({ request: { uid: "7", operation: "CREATE" } });
  const HEAD = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" };
  const PATCH = [{ op: "add", path: "/a", value: 1 }] as const;
  const REFUSED = { allowed: false, message: "no", causes: [] } as const;

  test.each<{ name: string; verdict: Verdict; response: object }>([
    { name: "allows", verdict: ALLOWED, response: { allowed: true } },
    {
      name: "omits empty lists",
      verdict: { allowed: true, warnings: [], patch: [] },
      response: { allowed: true },
    },
    {
      name: "encodes the patch as base64 and includes the warnings",
      verdict: { allowed: true, patch: PATCH, warnings: ["w"] },
      response: {
        allowed: true,
        warnings: ["w"],
        patchType: "JSONPatch",
        patch: Buffer.from(JSON.stringify(PATCH)).toString("base64"),
      },
    },
    {
      name: "rejects the user",
      verdict: { ...REFUSED, code: 403 },
      response: {
        allowed: false,
        status: { metadata: {}, status: "Failure", message: "no", reason: "Forbidden", code: 403 },
      },
    },
    {
      name: "rejects the object, with its causes",
      verdict: { ...REFUSED, code: 422, causes: [CAUSE] },
      response: {
        allowed: false,
        status: {
          metadata: {},
          status: "Failure",
          message: "no",
          reason: "Invalid",
          code: 422,
          details: { causes: [CAUSE] },
        },
      },
    },
  ])("$name", ({ verdict, response }) => {
    expect(printReview(REQUEST, verdict)).toEqual({ ...HEAD, response: { uid: "7", ...response } });
  });
});
