// SPDX-License-Identifier: Apache-2.0
// Are failures of connections named as people know them?
import { expect, test } from "vitest";
import { describeFailure, isUnreached } from "./failure.ts";

const AT = { host: "::1", port: 9 };

test.each([
  { code: "ECONNREFUSED", want: "dial tcp [::1]:9: connect: connection refused" },
  { code: "EHOSTUNREACH", want: "dial tcp [::1]:9: connect: no route to host" },
  { code: "ENOTFOUND", want: "dial tcp: lookup ::1: no such host" },
  { code: "ECONNRESET", want: "EOF" },
  {
    code: "DEPTH_ZERO_SELF_SIGNED_CERT",
    want: "tls: failed to verify certificate: x509: certificate signed by unknown authority",
  },
  {
    code: "CERT_HAS_EXPIRED",
    want: "tls: failed to verify certificate: x509: certificate has expired or is not yet valid",
  },
  { code: "", want: "something else" },
])("$code", ({ code, want }) => {
  expect(describeFailure(Object.assign(new Error("something else"), { code }), AT)).toBe(want);
});

test("only where nobody is there another address may be tried", () => {
  expect(isUnreached(Object.assign(new Error(""), { code: "ECONNREFUSED" }))).toBe(true);
  expect(isUnreached(Object.assign(new Error(""), { code: "ECONNRESET" }))).toBe(false);
});
