// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { CONFIG_MAP } from "../../kinds/config/config-map.ts";
import { StatusError } from "../../meta/status.ts";
import type { Call } from "../call.ts";
import { printDeleteOptions, parseDeleteOptions } from "./delete-options.ts";

function aCall(query: string, body: unknown): Call {
  return {
    kind: CONFIG_MAP,
    namespace: "default",
    name: "m",
    subresource: "",
    query: new URLSearchParams(query),
    body: {
      contentType: "application/json",
      text: body === undefined ? "" : JSON.stringify(body),
    },
    user: { name: "jane", groups: [] },
    representation: { format: "json", as: "object", isPretty: false },
    warnings: [],
    closed: new AbortController().signal,
  };
}

const NONE = {
  graceSeconds: undefined,
  uid: "",
  resourceVersion: "",
  propagationPolicy: "",
  dryRun: false,
};

describe("options", () => {
  test.each([
    { name: "none", query: "", body: undefined, want: NONE },
    { name: "an empty body", query: "gracePeriodSeconds=5", body: {}, want: NONE },
    {
      name: "a grace period in the query",
      query: "gracePeriodSeconds=5",
      body: undefined,
      want: { ...NONE, graceSeconds: 5 },
    },
    {
      name: "a grace period of 0",
      query: "gracePeriodSeconds=0",
      body: undefined,
      want: { ...NONE, graceSeconds: 0 },
    },
    {
      name: "a negative grace period",
      query: "gracePeriodSeconds=-1",
      body: undefined,
      want: { ...NONE, graceSeconds: 1 },
    },
    {
      name: "a grace period in the body",
      query: "",
      body: { gracePeriodSeconds: 7 },
      want: { ...NONE, graceSeconds: 7 },
    },
    { name: "a null grace period", query: "", body: { gracePeriodSeconds: null }, want: NONE },
    {
      name: "preconditions",
      query: "",
      body: { preconditions: { uid: "u", resourceVersion: "3" } },
      want: { ...NONE, uid: "u", resourceVersion: "3" },
    },
    {
      name: "a policy in the query",
      query: "propagationPolicy=Orphan",
      body: undefined,
      want: { ...NONE, propagationPolicy: "Orphan" },
    },
    {
      name: "a policy in the body",
      query: "",
      body: { propagationPolicy: "Foreground" },
      want: { ...NONE, propagationPolicy: "Foreground" },
    },
    {
      name: "a policy of null",
      query: "",
      body: { propagationPolicy: null, orphanDependents: true },
      want: { ...NONE, orphanDependents: true },
    },
    {
      name: "null orphanDependents",
      query: "",
      body: { propagationPolicy: "Orphan", orphanDependents: null },
      want: { ...NONE, propagationPolicy: "Orphan" },
    },
    {
      name: "orphanDependents in the query",
      query: "orphanDependents=true",
      body: undefined,
      want: { ...NONE, orphanDependents: true },
    },
    {
      name: "orphanDependents=false in the query",
      query: "orphanDependents=FALSE",
      body: undefined,
      want: { ...NONE, orphanDependents: false },
    },
    {
      name: "orphanDependents=0 in the query",
      query: "orphanDependents=0",
      body: undefined,
      want: { ...NONE, orphanDependents: false },
    },
    {
      name: "orphanDependents with an invalid value",
      query: "orphanDependents=x0",
      body: undefined,
      want: { ...NONE, orphanDependents: true },
    },
    {
      name: "orphanDependents with a longer invalid value",
      query: "orphanDependents=0x",
      body: undefined,
      want: { ...NONE, orphanDependents: true },
    },
    {
      name: "a dry run in the query, beside a body",
      query: "dryRun=All",
      body: {},
      want: { ...NONE, dryRun: true },
    },
    {
      name: "a dry run in the body",
      query: "",
      body: { dryRun: ["All"] },
      want: { ...NONE, dryRun: true },
    },
    { name: "no dry run in the body", query: "", body: { dryRun: [] }, want: NONE },
    { name: "a dry run of null", query: "", body: { dryRun: null }, want: NONE },
    { name: "the kind", query: "", body: { kind: "DeleteOptions" }, want: NONE },
    { name: "an empty kind", query: "", body: { kind: "" }, want: NONE },
    { name: "a kind of null", query: "", body: { kind: null }, want: NONE },
  ])("$name", ({ query, body, want }) => {
    expect(parseDeleteOptions(aCall(query, body))).toEqual(want);
  });
});

function refusalOf(query: string, body: unknown): unknown {
  try {
    return parseDeleteOptions(aCall(query, body));
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    const causes = error.details?.causes?.map(({ field, message }) => `${field ?? ""}: ${message}`);
    return { code: error.code, what: causes ?? error.message };
  }
}

const cannot = (type: string, field: string, want: string) =>
  `json: cannot unmarshal ${type} into Go struct field DeleteOptions.${field} of type ${want}`;

describe("rejections", () => {
  test.each([
    { body: { gracePeriodSeconds: "5" }, what: cannot("string", "gracePeriodSeconds", "int64") },
    { body: { gracePeriodSeconds: 1.5 }, what: cannot("number", "gracePeriodSeconds", "int64") },
    { body: { preconditions: [] }, what: cannot("array", "preconditions", "v1.Preconditions") },
    { body: { orphanDependents: "true" }, what: cannot("string", "orphanDependents", "bool") },
    {
      body: { propagationPolicy: 5 },
      what: cannot("number", "propagationPolicy", "v1.DeletionPropagation"),
    },
    { body: { dryRun: "All" }, what: cannot("string", "dryRun", "[]string") },
    { body: { dryRun: [true] }, what: cannot("array", "dryRun", "[]string") },
    { body: { kind: 5 }, what: cannot("number", "kind", "string") },
  ])("$body: 400", ({ body, what }) => {
    expect(refusalOf("", body)).toEqual({ code: 400, what });
  });

  test("rejects the body of another kind with 400", () => {
    expect(refusalOf("", { kind: "Pod" })).toEqual({
      code: 400,
      what: "decoded object cannot be converted to DeleteOptions",
    });
  });

  test.each([
    "gracePeriodSeconds=soon",
    "gracePeriodSeconds=1.5",
    "gracePeriodSeconds=5s",
    "gracePeriodSeconds=s5",
  ])("%s: 400", (query) => {
    const [, text = ""] = query.split("=");
    expect(refusalOf(query, undefined)).toEqual({
      code: 400,
      what: `strconv.ParseInt: parsing "${text}": invalid syntax`,
    });
  });

  test("reports all causes at once with 422", () => {
    const body = { propagationPolicy: "Bogus", orphanDependents: false, dryRun: ["Some"] };
    expect(refusalOf("dryRun=All", body)).toEqual({
      code: 422,
      what: [
        'propagationPolicy: Invalid value: "Bogus": orphanDependents and deletionPropagation cannot be both set',
        'propagationPolicy: Unsupported value: "Bogus": supported values: "Foreground", "Background", "Orphan", "nil"',
        'dryRun: Unsupported value: []string{"Some", "All"}: supported values: "All"',
      ],
    });
  });
});

describe("options as webhooks receive them", () => {
  const HEAD = { kind: "DeleteOptions", apiVersion: "meta.k8s.io/v1" };

  test.each([
    { name: "none", given: NONE, want: HEAD },
    {
      name: "all",
      given: {
        graceSeconds: 0,
        uid: "u",
        resourceVersion: "3",
        propagationPolicy: "Orphan",
        orphanDependents: false,
        dryRun: true,
      },
      want: {
        ...HEAD,
        gracePeriodSeconds: 0,
        preconditions: { uid: "u", resourceVersion: "3" },
        propagationPolicy: "Orphan",
        orphanDependents: false,
        dryRun: ["All"],
      },
    },
    {
      name: "a precondition with only a uid",
      given: { ...NONE, uid: "u" },
      want: { ...HEAD, preconditions: { uid: "u" } },
    },
    {
      name: "a precondition with only a version",
      given: { ...NONE, resourceVersion: "3" },
      want: { ...HEAD, preconditions: { resourceVersion: "3" } },
    },
  ])("$name", ({ given, want }) => {
    expect(printDeleteOptions(given)).toEqual(want);
  });
});
