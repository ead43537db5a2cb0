// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { StatusError } from "../../meta/status.ts";
import { parseCount, parseFlag, parseRevision } from "./list-options.ts";
import { checkWriteOptions } from "./write-options.ts";

/** Kind and causes of the refusal; undefined when the object is accepted. */
function refusalOf(verb: string, query: string, contentType = "application/json"): unknown {
  try {
    checkWriteOptions(verb, new URLSearchParams(query), contentType);
    return undefined;
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    const { kind, group, causes = [] } = error.details ?? {};
    const printed = causes.map(({ field, message }) => `${field ?? ""}: ${message}`);
    return { code: error.code, kind, group, causes: printed };
  }
}

const refusal = (kind: string, ...causes: readonly string[]) => ({
  code: 422,
  kind,
  group: "meta.k8s.io",
  causes,
});

const DRY = 'dryRun: Unsupported value: []string{"Some"}: supported values: "All"';

describe("options of writes", () => {
  test.each([
    { verb: "create", query: "dryRun=Some", want: refusal("CreateOptions", DRY) },
    { verb: "update", query: "dryRun=Some", want: refusal("UpdateOptions", DRY) },
    { verb: "patch", query: "dryRun=Some", want: refusal("PatchOptions", DRY) },
    { verb: "delete", query: "dryRun=Some", want: undefined },
    { verb: "get", query: "dryRun=Some", want: undefined },
    { verb: "create", query: "", want: undefined },
    {
      verb: "create",
      query: "dryRun=All&dryRun=All&fieldManager=kubectl&fieldValidation=Strict",
      want: undefined,
    },
    {
      verb: "create",
      query: "dryRun=All&dryRun=Some",
      want: refusal(
        "CreateOptions",
        'dryRun: Unsupported value: []string{"All", "Some"}: supported values: "All"',
      ),
    },
    {
      verb: "create",
      query: "fieldValidation=Loud",
      want: refusal(
        "CreateOptions",
        'fieldValidation: Unsupported value: "Loud": supported values: "", "Ignore", "Strict", "Warn"',
      ),
    },
    {
      verb: "update",
      query: "fieldManager=a%0Ab",
      want: refusal(
        "UpdateOptions",
        'fieldManager: Invalid value: "a\\nb": invalid character "\\n"',
      ),
    },
    { verb: "update", query: "fieldManager=%C3%BCber+%E2%9C%93", want: undefined },
    { verb: "update", query: `fieldManager=${"a".repeat(128)}`, want: undefined },
    {
      verb: "update",
      query: `fieldManager=${"%C3%BC".repeat(65)}`,
      want: refusal("UpdateOptions", "fieldManager: Too long: must have at most 128 bytes"),
    },
    { verb: "create", query: "force=true", want: undefined },
    {
      verb: "patch",
      query: "force=true",
      want: refusal("PatchOptions", "force: Forbidden: may not be specified for non-apply patch"),
    },
  ])("$verb $query", ({ verb, query, want }) => {
    expect(refusalOf(verb, query)).toEqual(want);
  });

  test("force is allowed for apply patches", () => {
    expect(refusalOf("patch", "force=true", "application/apply-patch+yaml")).toBeUndefined();
  });
});

/** What a function returns, or the message of what it throws. */
function outcomeOf(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return (error as Error).message;
  }
}

const notUnsigned = (text: string) =>
  `Invalid value: "${text}": strconv.ParseUint: parsing "${text}": invalid syntax`;
const notInteger = (text: string) => `strconv.ParseInt: parsing "${text}": invalid syntax`;

test.each([
  { text: null, revision: undefined, count: 0, flag: false },
  { text: "", revision: undefined, count: 0, flag: true },
  { text: "0", revision: 0, count: 0, flag: false },
  { text: "1", revision: 1, count: 1, flag: true },
  { text: "42", revision: 42, count: 42, flag: false },
  { text: "true", revision: notUnsigned("true"), count: notInteger("true"), flag: true },
  { text: "-1", revision: notUnsigned("-1"), count: notInteger("-1"), flag: false },
  { text: "1x", revision: notUnsigned("1x"), count: notInteger("1x"), flag: false },
  { text: "x1", revision: notUnsigned("x1"), count: notInteger("x1"), flag: false },
])("parses $text as a revision, a count and a flag", ({ text, revision, count, flag }) => {
  expect([
    outcomeOf(() => parseRevision(text)),
    outcomeOf(() => parseCount(text)),
    parseFlag(text),
  ]).toEqual([revision, count, flag]);
});
