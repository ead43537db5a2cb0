// SPDX-License-Identifier: Apache-2.0
// What does a typed server make of what clients send?
import { expect, test } from "vitest";
import { decodeShape } from "./decode-shape.ts";
import { canonicalQuantity } from "./scalar.ts";
import { kindShape, typeShape } from "./shape.ts";

const POD = typeShape("core.v1.Pod");

test.each([
  ["1000m", "1"],
  ["1500m", "1500m"],
  ["0.5", "500m"],
  ["0.1Gi", "107374182400m"],
  ["1.5Gi", "1536Mi"],
  ["1024Ki", "1Mi"],
  ["512", "512"],
  ["1000", "1k"],
  ["1e3", "1e3"],
  ["12E", "12E"],
  ["100Mi", "100Mi"],
  ["0.0000000001", "1n"],
  ["-2000m", "-2"],
  ["0Gi", "0"],
  ["+4", "4"],
  ["1Zi", undefined],
  ["", undefined],
  [".", undefined],
  ["1e400", undefined],
])("prints the quantity %s as %s", (given, want) => {
  expect(canonicalQuantity(given)).toBe(want);
});

test("what is known is kept in its canonical form, null is nothing", () => {
  const { fields, unknownPaths } = decodeShape(
    {
      metadata: { name: "p", creationTimestamp: null },
      spec: {
        nodeName: null,
        containers: [
          {
            name: "c",
            resources: { limits: { cpu: 2, memory: "1024Mi" } },
            ports: [{ containerPort: 80 }],
            livenessProbe: { httpGet: { port: "http" }, periodSeconds: 3 },
          },
        ],
        volumes: [{ name: "v", emptyDir: {} }],
      },
      status: { startTime: "2024-01-01T02:00:00+02:00" },
    },
    POD,
  );
  expect(unknownPaths).toEqual([]);
  expect(fields).toEqual({
    metadata: { name: "p" },
    spec: {
      containers: [
        {
          name: "c",
          resources: { limits: { cpu: "2", memory: "1Gi" } },
          ports: [{ containerPort: 80 }],
          livenessProbe: { httpGet: { port: "http" }, periodSeconds: 3 },
        },
      ],
      volumes: [{ name: "v", emptyDir: {} }],
    },
    status: { startTime: "2024-01-01T00:00:00Z" },
  });
});

test("drops and names unknown fields, case-sensitively", () => {
  const given = {
    metadata: { lables: {} },
    Spec: {},
    spec: { containers: [{ name: "c", Image: "i" }, { ports: [{ port: 1 }] }] },
  };
  const { fields, unknownPaths } = decodeShape(given, POD);
  expect(fields).toEqual({
    metadata: {},
    spec: { containers: [{ name: "c" }, { ports: [{}] }] },
  });
  expect(unknownPaths).toEqual([
    "metadata.lables",
    "Spec",
    "spec.containers[0].Image",
    "spec.containers[1].ports[0].port",
  ]);
});

test.each([
  {
    given: { spec: { hostNetwork: "yes" } },
    want: "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
  },
  {
    given: { spec: { containers: [{ env: [{ name: "E", value: 1 }] }] } },
    want: "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
  },
  {
    given: { spec: { containers: {} } },
    want: "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
  },
  {
    given: { spec: "x" },
    want: "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec",
  },
  {
    given: { spec: { priority: 1.5 } },
    want: "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
  },
  {
    given: { spec: { nodeSelector: { a: true } } },
    want: "json: cannot unmarshal bool into Go struct field PodSpec.spec.nodeSelector of type string",
  },
  {
    given: { spec: { overhead: { cpu: "much" } } },
    want: "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
  },
  {
    given: { status: { startTime: "noon" } },
    want: 'parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"',
  },
])("rejects $given: $want", ({ given, want }) => {
  expect(() => decodeShape(given, POD)).toThrow(want);
});

test.each([
  ["%%%", "illegal base64 data at input byte 0"],
  ["YQ", "illegal base64 data at input byte 2"],
])("%s is not base64: %s", (data, want) => {
  expect(() => decodeShape({ data: { a: data } }, typeShape("core.v1.Secret"))).toThrow(want);
});

test("preserves long integers and microseconds", () => {
  const lease = typeShape("coordination.v1.Lease");
  const spec = { renewTime: "2024-01-01T00:00:00.123456Z" };
  expect(decodeShape({ spec }, lease).fields).toEqual({ spec });
  const status = { observedGeneration: 9_007_199_254_740_993n };
  expect(decodeShape({ status }, typeShape("apps.v1.Deployment")).fields).toEqual({ status });
});

test("a kind that is not built in has no shape", () => {
  expect(kindShape("x.io/v1", "X")).toBeUndefined();
  expect(kindShape("v1", "Pod")).toBe(POD);
});
