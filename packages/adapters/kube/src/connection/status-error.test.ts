// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parseStatus, toStatusError } from "./status-error.ts";

const DENIED = 'admission webhook "judge.example" denied the request: not today';
const request = { verb: "patch", resource: "pods", object: "ns/one" };

describe("the code", () => {
  test.each([
    { name: "a write conflict", status: 409, message: "has been modified", want: "KUBE_CONFLICT" },
    {
      name: "a failed test of a JSON patch",
      status: 422,
      message: "test failed",
      want: "KUBE_CONFLICT",
    },
    { name: "a webhook denial with 409", status: 409, message: DENIED, want: "KUBE_REFUSED" },
    { name: "a webhook denial with 422", status: 422, message: DENIED, want: "KUBE_REFUSED" },
    {
      name: "a webhook denial with 403",
      status: 403,
      message: DENIED,
      want: "KUBE_FORBIDDEN",
    },
    {
      name: "a write conflict whose message quotes a webhook",
      status: 409,
      message: `said before: ${DENIED}`,
      want: "KUBE_CONFLICT",
    },
  ])("of $name is $want", ({ status, message, want }) => {
    const text = JSON.stringify({ kind: "Status", message });
    expect(toStatusError({ status, text }, { ...request, hasTest: true }).code).toBe(want);
  });

  test.each([
    { name: "a rejection of a patch without a test", status: 422, text: "", want: "KUBE_REFUSED" },
    { name: "a conflict with an HTML body", status: 409, text: "<html>", want: "KUBE_CONFLICT" },
    { name: "the first unexpected status", status: 423, text: "", want: "KUBE_SERVER_FAILED" },
    { name: "an unknown path", status: 404, text: "not found", want: "KUBE_NOT_FOUND" },
  ])("of $name is $want", ({ status, text, want }) => {
    expect(toStatusError({ status, text }, request).code).toBe(want);
  });
});

describe("the details", () => {
  const readDetails = (status: number, body: unknown): unknown =>
    toStatusError({ status, text: JSON.stringify(body) }, request).details;
  const cause = (reason: string, field?: string, message?: string): object => ({
    reason,
    field,
    message,
  });

  test("contain only the request, the status and the message", () => {
    expect(readDetails(403, { kind: "Status", message: "no" })).toStrictEqual({
      ...request,
      status: 403,
      message: "no",
    });
  });

  test("contain one line for each cause, and the cause type if all causes share one", () => {
    const causes = [
      cause("FieldValueInvalid", "spec.x", "bad"),
      cause("FieldValueInvalid", "", "worse"),
      cause("FieldValueInvalid", undefined, "worst"),
      cause("FieldValueInvalid"),
    ];
    expect(readDetails(422, { kind: "Status", message: "no", details: { causes } })).toStrictEqual({
      ...request,
      status: 422,
      message: "no",
      causes: "spec.x: bad\nworse\nworst\nFieldValueInvalid",
      causeType: "FieldValueInvalid",
    });
  });

  test("contain no cause type for causes of several types", () => {
    const causes = [cause("FieldValueInvalid", "a", "b"), cause("FieldValueRequired", "c", "d")];
    const details = readDetails(422, { kind: "Status", details: { causes } });
    expect(details).not.toHaveProperty("causeType");
    expect(details).toHaveProperty("causes", "a: b\nc: d");
  });

  test("contain the retry delay", () => {
    expect(readDetails(429, { kind: "Status", details: { retryAfterSeconds: 3 } })).toHaveProperty(
      "retryAfterSeconds",
      3,
    );
  });

  test("contain the beginning of a response that is not a Status", () => {
    const text = `  ${"x".repeat(301)} `;
    const { details } = toStatusError({ status: 502, text }, request);
    expect(details).toStrictEqual({ ...request, status: 502, message: "x".repeat(300) });
  });
});

test.each(["", "404 page not found", "null", "7", '"Status"', "[]", '{"kind":"Pod"}', "{}"])(
  "%j is not a Status",
  (text) => {
    expect(parseStatus(text)).toBeUndefined();
  },
);
