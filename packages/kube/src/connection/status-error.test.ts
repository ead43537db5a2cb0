// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { toStatusError } from "./status-error.ts";

const DENIED = 'admission webhook "judge.example" denied the request: not today';

test.each([
  { name: "a lost race", status: 409, message: "has been modified", want: "KUBE_CONFLICT" },
  {
    name: "a test of a patch that failed",
    status: 422,
    message: "test failed",
    want: "KUBE_CONFLICT",
  },
  { name: "a webhook that refuses with 409", status: 409, message: DENIED, want: "KUBE_REFUSED" },
  { name: "a webhook that refuses with 422", status: 422, message: DENIED, want: "KUBE_REFUSED" },
  { name: "a webhook that refuses with 403", status: 403, message: DENIED, want: "KUBE_FORBIDDEN" },
])("$name is $want", ({ status, message, want }) => {
  const text = JSON.stringify({ kind: "Status", message });
  const asked = { verb: "patch", resource: "pods", object: "ns/one", isTested: true };
  expect(toStatusError({ status, text }, asked).code).toBe(want);
});
