// SPDX-License-Identifier: Apache-2.0
import type { KubeClient } from "@patchbay/kube";
import { expect, test } from "vitest";
import { aPodWith, UID } from "../testing.ts";
import { replaceAtMs } from "./pod-tokens.ts";
import { tokenRequester } from "./request-token.ts";

function serverThatAnswers(status: unknown) {
  const requests: unknown[] = [];
  const requestRaw: KubeClient["requestRaw"] = (request) => {
    requests.push(request);
    return Promise.resolve({ status: 201, text: JSON.stringify({ status }), warnings: [] });
  };
  return { requests, request: tokenRequester({ requestRaw }) };
}

test("a token is asked for the pod's account, bound to the pod", async () => {
  const status = { token: "t", expirationTimestamp: "2026-11-22T10:00:00Z" };
  const { requests, request } = serverThatAnswers(status);
  const token = await request(aPodWith([]), { audience: "x", expirationSeconds: 600 });
  expect(token).toEqual({ text: "t", expiresMs: Date.UTC(2026, 10, 22, 10) });
  expect(requests).toEqual([
    {
      method: "POST",
      path: "/api/v1/namespaces/ns/serviceaccounts/default/token",
      body: {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: {
          audiences: ["x"],
          expirationSeconds: 600,
          boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "a", uid: UID },
        },
      },
    },
  ]);
});

test.each([{}, { token: "t" }, { token: "t", expirationTimestamp: "soon" }])(
  "an answer without a token or its end is an error: %o",
  async (status) => {
    const { request } = serverThatAnswers(status);
    await expect(request(aPodWith([]), { expirationSeconds: 600 })).rejects.toMatchObject({
      code: "API_MALFORMED",
    });
  },
);

test.each([
  { seconds: 3600, want: 2880 },
  { seconds: 7 * 24 * 3600, want: 24 * 3600 },
])("a token of $seconds s is replaced after $want s", ({ seconds, want }) => {
  expect(replaceAtMs({ text: "", expiresMs: 5000 + seconds * 1000 }, 5000)).toBe(
    5000 + want * 1000,
  );
});
