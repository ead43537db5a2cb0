// SPDX-License-Identifier: Apache-2.0
// Are bodies of typed clients read? Captured from kubectl 1.33.
import { expect, test } from "vitest";
import { decodeProtobuf } from "./decode.ts";

const NAMESPACE = "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEh0KFQoFYnJpZWYSABoAIgAqADIAOABCABIAGgIKABoAIgA=";

test.each([
  {
    kind: "Namespace",
    body: NAMESPACE,
    want: { apiVersion: "v1", metadata: { name: "brief" }, spec: {} },
  },
  {
    kind: "ConfigMap",
    body: "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEiIKGAoBYxIAGgdkZWZhdWx0IgAqADIAOABCABIGCgFhEgFiGgAiAA==",
    want: { apiVersion: "v1", metadata: { name: "c", namespace: "default" }, data: { a: "b" } },
  },
  {
    kind: "Secret",
    body: "azhzAAoMCgJ2MRIGU2VjcmV0EiQKGAoBcxIAGgdkZWZhdWx0IgAqADIAOABCABIGCgFhEgFiGgAaACIA",
    want: { apiVersion: "v1", metadata: { name: "s", namespace: "default" }, data: { a: "Yg==" } },
  },
  {
    kind: "SelfSubjectAccessReview",
    body: "azhzAAoyChdhdXRob3JpemF0aW9uLms4cy5pby92MRIXU2VsZlN1YmplY3RBY2Nlc3NSZXZpZXcSNgoQCgASABoAIgAqADIAOABCABIYChYKAXgSA2dldBoAIgAqBHBvZHMyADoAGggIABIAGgAgABoAIgA=",
    want: {
      apiVersion: "authorization.k8s.io/v1",
      metadata: {},
      spec: { resourceAttributes: { namespace: "x", verb: "get", resource: "pods" } },
    },
  },
  {
    kind: "Service",
    body: "azhzAAoNCgJ2MRIHU2VydmljZRJtCiIKAXMSABoHZGVmYXVsdCIAKgAyADgAQgBaCAoDYXBwEgFzEkMKHgoHODAtaHR0cBIDVENQGFAiCggBEAAaBGh0dHAoABIICgNhcHASAXMaACIJQ2x1c3RlcklQOgBCAFIAWgBgAGgAGgIKABoAIgA=",
    want: {
      apiVersion: "v1",
      metadata: { name: "s", namespace: "default", labels: { app: "s" } },
      spec: {
        ports: [{ name: "80-http", protocol: "TCP", port: 80, targetPort: "http" }],
        selector: { app: "s" },
        type: "ClusterIP",
      },
    },
  },
])("$kind", ({ kind, body, want }) => {
  expect(decodeProtobuf(Buffer.from(body, "base64"))).toMatchObject({ kind, ...want });
});

test("a kind that is not known in this form is none", () => {
  const body = Buffer.from(NAMESPACE, "base64")
    .toString("latin1")
    .replace("Namespace", "Namespade");
  expect(decodeProtobuf(Buffer.from(body, "latin1"))).toBeUndefined();
});

test("a damaged body is refused, whatever is missing", () => {
  const whole = Buffer.from(NAMESPACE, "base64");
  expect(() => decodeProtobuf(Buffer.from("{}"))).toThrow(SyntaxError);
  expect(() => decodeProtobuf(whole.subarray(0, 12))).toThrow(SyntaxError);
  expect(() => decodeProtobuf(Buffer.concat([whole, Buffer.from([0xff])]))).toThrow(SyntaxError);
});
