// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { toCriError } from "./grpc.ts";

function grpcError(code: number, details: string): Error {
  return Object.assign(new Error(`${String(code)}: ${details}`), { code, details });
}

const CALL = { method: "StopContainer", timeoutMs: 50, endpoint: "unix:///x", isConnected: true };

test.each([
  {
    name: "an object is not found",
    error: grpcError(5, "not found"),
    call: CALL,
    want: {
      code: "CRI_FAILED",
      details: { call: "StopContainer", status: "NOT_FOUND", reason: "not found" },
    },
  },
  {
    name: "a server does not listen",
    error: grpcError(14, "ENOENT"),
    call: { ...CALL, isConnected: false },
    want: { code: "CRI_UNAVAILABLE", details: { endpoint: "unix:///x", reason: "ENOENT" } },
  },
  {
    name: "a connection broke and the channel has not noticed",
    error: grpcError(14, "reset"),
    call: CALL,
    want: { code: "CRI_UNAVAILABLE" },
  },
  {
    name: "a registry is unavailable, as the runtime reports",
    error: grpcError(14, "registry"),
    call: { ...CALL, method: "PullImage" },
    want: { code: "CRI_FAILED", details: { status: "UNAVAILABLE", reason: "registry" } },
  },
  {
    name: "the runtime becomes unavailable during a pull",
    error: grpcError(14, "gone"),
    call: { ...CALL, method: "PullImage", isConnected: false },
    want: { code: "CRI_UNAVAILABLE" },
  },
  {
    name: "a channel was closed",
    error: grpcError(1, "closed"),
    call: CALL,
    want: { code: "CRI_UNAVAILABLE" },
  },
  {
    name: "a call exceeds its deadline",
    error: grpcError(4, "deadline"),
    call: CALL,
    want: { code: "CRI_TIMED_OUT", details: { call: "StopContainer", timeoutMs: 50 } },
  },
  {
    name: "an unexpected status code",
    error: new Error("boom"),
    call: CALL,
    want: { code: "CRI_FAILED", details: { status: "UNKNOWN", reason: "boom" } },
  },
  {
    name: "a number that is not a gRPC status code",
    error: grpcError(99, ""),
    call: CALL,
    want: { code: "CRI_FAILED", details: { status: "UNKNOWN", reason: "99: " } },
  },
])("$name", ({ error, call, want }) => {
  expect(toCriError(error, call)).toMatchObject({ ...want, cause: error });
});
