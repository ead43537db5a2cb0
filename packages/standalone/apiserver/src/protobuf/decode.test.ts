// SPDX-License-Identifier: Apache-2.0
// Are bodies of typed clients read? Captured from kubectl 1.32 and 1.33.
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
    kind: "SelfSubjectRulesReview",
    body: "azhzAAoxChdhdXRob3JpemF0aW9uLms4cy5pby92MRIWU2VsZlN1YmplY3RSdWxlc1JldmlldxIfChAKABIAGgAiACoAMgA4AEIAEgUKA3JlZBoEGAAiABoAIgA=",
    want: {
      apiVersion: "authorization.k8s.io/v1",
      metadata: {},
      spec: { namespace: "red" },
    },
  },
  {
    kind: "Ingress",
    body: "azhzAAofChRuZXR3b3JraW5nLms4cy5pby92MRIHSW5ncmVzcxJ4ChEKAWkSABoAIgAqADIAOABCABJfCgwiCgoBZBIFCgAQkD8SCAoDYS5iEgF0GkIKA2EuYhI7CjkKGQoCL3ASCyIJCgFzEgQKABBQGgZQcmVmaXgKHAoCL3ESDyINCgFzEggKBGh0dHAQABoFRXhhY3QiAWMaAgoAGgAiAA==",
    want: {
      metadata: { name: "i" },
      spec: {
        ingressClassName: "c",
        defaultBackend: { service: { name: "d", port: { number: 8080 } } },
        tls: [{ hosts: ["a.b"], secretName: "t" }],
        rules: [
          {
            host: "a.b",
            http: {
              paths: [
                {
                  path: "/p",
                  pathType: "Prefix",
                  backend: { service: { name: "s", port: { number: 80 } } },
                },
                {
                  path: "/q",
                  pathType: "Exact",
                  backend: { service: { name: "s", port: { name: "http" } } },
                },
              ],
            },
          },
        ],
      },
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
  {
    kind: "Deployment",
    body: "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50EsEBCiYKA3dlYhIAGgdkZWZhdWx0IgAqADIAOABCAFoKCgNhcHASA3dlYhKIAQgCEgwKCgoDYXBwEgN3ZWIabgocCgASABoAIgAqADIAOABCAFoKCgNhcHASA3dlYhJOEjAKBW5naW54EgduZ2lueDoxKgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA=",
    want: {
      apiVersion: "apps/v1",
      spec: {
        replicas: 2,
        selector: { matchLabels: { app: "web" } },
        template: {
          metadata: { labels: { app: "web" } },
          spec: {
            containers: [{ name: "nginx", image: "nginx:1", ports: [{ containerPort: 80 }] }],
          },
        },
      },
    },
  },
  {
    kind: "ResourceQuota",
    body: "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRI7ChgKAXESABoHZGVmYXVsdCIAKgAyADgAQgASHQoOCgNjcHUSBwoFMTUwMG0KCwoEcG9kcxIDCgEzGgAaACIA",
    want: { spec: { hard: { cpu: "1500m", pods: "3" } } },
  },
  {
    kind: "PodDisruptionBudget",
    body: "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSPAoaCgNwZGISABoHZGVmYXVsdCIAKgAyADgAQgASEgoGCAAQARoAEggKBgoBYRIBYhoKCAAYACAAKAAwABoAIgA=",
    want: { spec: { minAvailable: 1, selector: { matchLabels: { a: "b" } } } },
  },
])("$kind", ({ kind, body, want }) => {
  expect(decodeProtobuf(Buffer.from(body, "base64"))).toMatchObject({ kind, ...want });
});

test("does not decode a kind without a protobuf table", () => {
  const body = Buffer.from(NAMESPACE, "base64")
    .toString("latin1")
    .replace("Namespace", "Namespade");
  expect(decodeProtobuf(Buffer.from(body, "latin1"))).toBeUndefined();
});

test("does not decode a body with a field that the tables do not contain", () => {
  const whole = Buffer.from(NAMESPACE, "base64");
  // Field 99 of the specification, with one byte in it.
  const spec = Buffer.concat([Buffer.from([0x12, 4, 0x9a, 0x06, 1, 0x61])]);
  const raw = Buffer.concat([Buffer.from([0x12, spec.length]), spec]);
  const typeMeta = whole.subarray(4, 4 + 2 + (whole[5] ?? 0));
  expect(decodeProtobuf(Buffer.concat([whole.subarray(0, 4), typeMeta, raw]))).toBeUndefined();
});

test("rejects a damaged body, wherever it is cut", () => {
  const whole = Buffer.from(NAMESPACE, "base64");
  expect(() => decodeProtobuf(Buffer.from("{}"))).toThrow(SyntaxError);
  expect(() => decodeProtobuf(whole.subarray(0, 12))).toThrow(SyntaxError);
  expect(() => decodeProtobuf(Buffer.concat([whole, Buffer.from([0xff])]))).toThrow(SyntaxError);
});

test("rejects more fields than JSON may have", () => {
  const finalizers = Buffer.from([0x72, 1, 0x61]);
  const spec = (count: number): Buffer => {
    const metadata = Buffer.concat(Array.from({ length: count }, () => finalizers));
    const length = [(metadata.length & 127) | 128, ((metadata.length >> 7) & 127) | 128];
    const object = Buffer.from([0x0a, ...length, metadata.length >> 14]);
    const raw = Buffer.concat([object, metadata]);
    const lengths = [(raw.length & 127) | 128, ((raw.length >> 7) & 127) | 128, raw.length >> 14];
    const typeMeta = Buffer.from(NAMESPACE, "base64").subarray(0, 21);
    return Buffer.concat([typeMeta, Buffer.from([0x12, ...lengths]), raw]);
  };
  const few = { metadata: { finalizers: Array.from({ length: 5000 }, () => "a") } };
  expect(decodeProtobuf(spec(5000))).toMatchObject(few);
  expect(() => decodeProtobuf(spec(99_000))).toThrow("too many fields");
});
