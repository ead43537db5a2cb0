// SPDX-License-Identifier: Apache-2.0
// Responses to failed requests.
import { VIRTUAL_MACHINES } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { toAcceptedAnswer, toErrorAnswer, toFailureAnswer, toConflictAnswer } from "./calls.ts";

const OBJECT_REF = { type: VIRTUAL_MACHINES, name: "vm" };
const DETAILS = { name: "vm", group: "kubevirt.io", kind: "virtualmachines" };

test("toAcceptedAnswer responds with 202 and the message", () => {
  expect(toAcceptedAnswer("it starts")).toEqual({
    code: 202,
    body: {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Success",
      message: "it starts",
      code: 202,
    },
  });
});

describe("toFailureAnswer", () => {
  test("builds a complete Status without unknown objects and fields", () => {
    expect(toFailureAnswer({ code: 401, message: "who?" })).toEqual({
      code: 401,
      body: {
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Failure",
        message: "who?",
        reason: "Unauthorized",
        code: 401,
      },
    });
  });

  test("names the object and the fields", () => {
    const causes = [{ reason: "FieldValueInvalid", field: "name", message: "bad" }] as const;
    const answer = toFailureAnswer({ code: 422, message: "no", objectRef: OBJECT_REF, causes });
    expect(answer.body).toMatchObject({ details: { ...DETAILS, causes } });
    const { body } = toFailureAnswer({
      code: 422,
      message: "no",
      objectRef: OBJECT_REF,
      causes: [],
    });
    expect(body).toMatchObject({ details: DETAILS });
    expect(body).not.toHaveProperty("details.causes");
  });

  test.each([
    { code: 400, reason: "BadRequest" },
    { code: 403, reason: "Forbidden" },
    { code: 404, reason: "NotFound" },
    { code: 405, reason: "MethodNotAllowed" },
    { code: 409, reason: "Conflict" },
    { code: 413, reason: "RequestEntityTooLarge" },
    { code: 415, reason: "UnsupportedMediaType" },
    { code: 422, reason: "Invalid" },
    { code: 503, reason: "ServiceUnavailable" },
    { code: 504, reason: "Timeout" },
    { code: 500, reason: "InternalError" },
    { code: 418, reason: "InternalError" },
  ])("$code is $reason", ({ code, reason }) => {
    expect(toFailureAnswer({ code, message: "no" }).body).toMatchObject({ reason });
  });

  test("uses an explicit reason", () => {
    const answer = toFailureAnswer({ code: 409, message: "no", reason: "AlreadyExists" });
    expect(answer.body).toMatchObject({ reason: "AlreadyExists" });
  });

  test("reports a conflict that can be retried", () => {
    expect(toConflictAnswer(OBJECT_REF, "")).toMatchObject({
      code: 409,
      body: { message: expect.stringMatching(/try again$/) as string, details: DETAILS },
    });
    expect(toConflictAnswer(OBJECT_REF, "the test failed")).toMatchObject({
      body: { message: expect.stringMatching(/try again \(the test failed\)$/) as string },
    });
  });
});

describe("toErrorAnswer", () => {
  test("hides the message of an unexpected error", () => {
    expect(toErrorAnswer(new Error("secret"))).toMatchObject({
      code: 500,
      body: { message: "internal error" },
    });
  });

  test("uses the status and message of an AppError", () => {
    const error = new AppError("API_MALFORMED", { what: "the request body", reason: "x" });
    expect(toErrorAnswer(error)).toMatchObject({ code: 400, body: { message: error.message } });
  });

  test("forwards an API server error with its fields", () => {
    const causes = "spec.a: is bad: very\nsomething else";
    const details = { status: 418, message: "I am a teapot", causes };
    expect(toErrorAnswer(new AppError("KUBE_REFUSED", details))).toMatchObject({
      code: 418,
      body: {
        message: "I am a teapot",
        details: {
          causes: [
            { reason: "FieldValueInvalid", field: "spec.a", message: "is bad: very" },
            { reason: "FieldValueInvalid", field: "", message: "something else" },
          ],
        },
      },
    });
  });

  test.each([{ causes: "" }, { causes: 1 }, {}])("finds no fields in %j", (details) => {
    const { body } = toErrorAnswer(new AppError("KUBE_REFUSED", { status: 422, ...details }));
    expect(body).not.toHaveProperty("details");
  });

  test.each([
    { name: "no status", details: { message: "said" }, code: 404 },
    {
      name: "an HTTP status that is not a number",
      details: { status: "418", message: "said" },
      code: 404,
    },
    { name: "no message", details: { status: 418, message: 1 }, code: 418 },
  ])("uses the AppError's message for an API server error with $name", ({ details, code }) => {
    const error = new AppError("KUBE_NOT_FOUND", details);
    expect(toErrorAnswer(error)).toMatchObject({ code, body: { message: error.message } });
  });

  test("uses the code's status for errors of other components", () => {
    const error = new AppError("OS_FILE_FAILED", { status: 418, message: "said" });
    expect(toErrorAnswer(error)).toMatchObject({ code: 500, body: { message: error.message } });
  });
});
