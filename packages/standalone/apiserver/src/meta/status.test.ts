// SPDX-License-Identifier: Apache-2.0
// Bodies of refusals, which clients parse.
import { expect, test } from "vitest";
import {
  duplicateValue,
  forbiddenValue,
  invalidValue,
  notFoundValue,
  requiredValue,
  tooLongValue,
  tooManyValue,
  unsupportedValue,
} from "./causes.ts";
import {
  StatusError,
  alreadyExists,
  badRequest,
  conflict,
  expired,
  forbidden,
  internalError,
  invalid,
  methodNotAllowed,
  modified,
  notFound,
  successBody,
  tooLarge,
  tooLargeResourceVersion,
  tooManyRequests,
  unauthorized,
  unknownPath,
  unsupportedMediaType,
} from "./status.ts";

const PODS = { group: "", resource: "pods", kind: "Pod" };
const LEASES = { group: "x.io", resource: "leases", kind: "Lease" };
const POD_DETAILS = { name: "p", kind: "pods" };
const LEASE_DETAILS = { name: "l", group: "x.io", kind: "leases" };
const cause = requiredValue("spec");
const many = Array.from({ length: 101 }, () => cause);

test.each<{ error: StatusError; want: object }>([
  {
    error: notFound(PODS, "p"),
    want: { code: 404, reason: "NotFound", message: 'pods "p" not found', details: POD_DETAILS },
  },
  {
    error: notFound(LEASES, ""),
    want: {
      code: 404,
      reason: "NotFound",
      message: 'leases.x.io "" not found',
      details: { group: "x.io", kind: "leases" },
    },
  },
  {
    error: unknownPath(),
    want: {
      code: 404,
      reason: "NotFound",
      message: "the server could not find the requested resource",
      details: {},
    },
  },
  {
    error: unknownPath("clones"),
    want: {
      code: 404,
      reason: "NotFound",
      message:
        "the server could not find the requested resource: Patchbay does not have clones; nothing was changed",
      details: {},
    },
  },
  {
    error: alreadyExists(LEASES, "l"),
    want: {
      code: 409,
      reason: "AlreadyExists",
      message: 'leases.x.io "l" already exists',
      details: LEASE_DETAILS,
    },
  },
  {
    error: conflict(PODS, "p", "why"),
    want: {
      code: 409,
      reason: "Conflict",
      message: 'Operation cannot be fulfilled on pods "p": why',
      details: POD_DETAILS,
    },
  },
  {
    error: modified(PODS, "p"),
    want: {
      code: 409,
      reason: "Conflict",
      message:
        'Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to the latest version and try again',
      details: POD_DETAILS,
    },
  },
  {
    error: tooLarge("why"),
    want: { code: 413, reason: "RequestEntityTooLarge", message: "Request entity too large: why" },
  },
  {
    error: tooManyRequests("why"),
    want: {
      code: 429,
      reason: "TooManyRequests",
      message: "why",
      details: { retryAfterSeconds: 1 },
    },
  },
  {
    error: invalid(PODS, "p", [cause]),
    want: {
      code: 422,
      reason: "Invalid",
      message: 'Pod "p" is invalid: spec: Required value',
      details: { name: "p", kind: "Pod", causes: [cause] },
    },
  },
  {
    error: invalid({ ...LEASES, kind: "Lease" }, "", [cause, { ...cause, field: "status" }]),
    want: {
      code: 422,
      reason: "Invalid",
      message: 'Lease.x.io "" is invalid: [spec: Required value, status: Required value]',
      details: { group: "x.io", kind: "Lease", causes: [cause, { ...cause, field: "status" }] },
    },
  },
  {
    error: invalid({ ...PODS, kind: "" }, "p", []),
    want: {
      code: 422,
      reason: "Invalid",
      message: ' "p" is invalid: []',
      details: { name: "p", causes: [] },
    },
  },
  {
    error: badRequest("why"),
    want: { code: 400, reason: "BadRequest", message: "why" },
  },
  {
    error: forbidden(PODS, "", "why"),
    want: {
      code: 403,
      reason: "Forbidden",
      message: "pods is forbidden: why",
      details: { kind: "pods" },
    },
  },
  {
    error: forbidden(LEASES, "l", "why"),
    want: {
      code: 403,
      reason: "Forbidden",
      message: 'leases.x.io "l" is forbidden: why',
      details: LEASE_DETAILS,
    },
  },
  {
    error: unauthorized(),
    want: { code: 401, reason: "Unauthorized", message: "Unauthorized" },
  },
  {
    error: methodNotAllowed(),
    want: {
      code: 405,
      reason: "MethodNotAllowed",
      message: "the server does not allow this method on the requested resource",
      details: {},
    },
  },
  { error: expired("why"), want: { code: 410, reason: "Expired", message: "why" } },
  {
    error: expired("why", "token"),
    want: { code: 410, reason: "Expired", message: "why", metadata: { continue: "token" } },
  },
  {
    error: unsupportedMediaType("", ["a", "b"]),
    want: {
      code: 415,
      reason: "UnsupportedMediaType",
      message:
        "the body of the request was in an unknown format - accepted media types include: a, b",
    },
  },
  {
    error: unsupportedMediaType("c", ["a"]),
    want: {
      code: 415,
      reason: "UnsupportedMediaType",
      message:
        "the body of the request was in an unknown format - accepted media types include: a (got c)",
    },
  },
  {
    error: internalError("why"),
    want: {
      code: 500,
      reason: "InternalError",
      message: "Internal error occurred: why",
      details: { causes: [{ reason: "UnexpectedServerResponse", message: "why" }] },
    },
  },
  {
    error: tooLargeResourceVersion(9, 5),
    want: {
      code: 504,
      reason: "Timeout",
      message: "Timeout: Too large resource version: 9, current: 5",
      details: {
        causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
        retryAfterSeconds: 1,
      },
    },
  },
  {
    error: new StatusError({ code: 502, reason: "", message: "why" }),
    want: { code: 502, message: "why" },
  },
])("the body of $error.message", ({ error, want }) => {
  const status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure" };
  expect(error.toBody()).toEqual({ ...status, ...want });
});

test("names the first eight of many causes", () => {
  expect(invalid(PODS, "p", many).details?.causes).toHaveLength(8);
});

test("the body of a success", () => {
  expect(successBody({ name: "p" })).toEqual({
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    details: { name: "p" },
  });
});

test.each([
  { given: invalidValue("f", undefined, "why"), want: ["Invalid", "Invalid value: null: why"] },
  { given: invalidValue("f", { a: 1n }, "why"), want: ["Invalid", 'Invalid value: {"a":1}: why'] },
  { given: requiredValue("f"), want: ["Required", "Required value"] },
  { given: requiredValue("f", "why"), want: ["Required", "Required value: why"] },
  { given: forbiddenValue("f", "why"), want: ["Forbidden", "Forbidden: why"] },
  { given: duplicateValue("f", "x"), want: ["Duplicate", 'Duplicate value: "x"'] },
  { given: notFoundValue("f", "x"), want: ["NotFound", 'Not found: "x"'] },
  {
    given: unsupportedValue("f", "x", ["a", 1]),
    want: ["NotSupported", 'Unsupported value: "x": supported values: "a", 1'],
  },
  { given: tooManyValue("f", 3, 2), want: ["TooMany", "Too many: 3: must have at most 2 items"] },
  { given: tooLongValue("f", 2), want: ["TooLong", "Too long: must have at most 2 bytes"] },
])("the cause $given", ({ given, want: [reason = "", message] }) => {
  expect(given).toEqual({ field: "f", reason: `FieldValue${reason}`, message });
});
