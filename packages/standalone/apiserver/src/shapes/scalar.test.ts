// SPDX-License-Identifier: Apache-2.0
// Values that a typed server reads and refuses, with the texts of Go's decoder.
import { expect, test } from "vitest";
import { decodeShape } from "./decode-shape.ts";
import { DecodeError, READERS, canonicalQuantity } from "./scalar.ts";
import { type Scalar, findKindByType, kindShape, typeShape } from "./shape.ts";

const BIG = 2n ** 60n;
const NOT_INTO = "json: cannot unmarshal";
const INT32 = 2 ** 31 - 1;

test.each<readonly [Scalar, unknown, unknown]>([
  ["any", [1, null], [1, null]],
  ["boolean", false, false],
  ["int32", INT32, INT32],
  ["int32", -INT32, -INT32],
  ["int64", 5, 5],
  ["int64", BIG, BIG],
  ["double", 1.5, 1.5],
  ["double", BIG, BIG],
  ["bytes", "", ""],
  ["bytes", "YWJj\r\nYQ==\n", "YWJjYQ=="],
  ["time", "2024-01-01T02:00:00.9+02:00", "2024-01-01T00:00:00Z"],
  ["micro-time", "2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00.123456Z"],
  ["micro-time", "2024-01-01T00:00:00.5Z", "2024-01-01T00:00:00.500000Z"],
  ["micro-time", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000000Z"],
  ["int-or-string", "http", "http"],
  ["int-or-string", 80, 80],
  ["quantity", "0.5", "500m"],
  ["quantity", 1500, "1500"],
  ["quantity", 10n ** 18n, "1E"],
])("reads a value of %s: %s as %s", (scalar, given, want) => {
  expect(READERS[scalar](given, "T.f")).toEqual(want);
});

const QUANTITY =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const notTime = (text: string, layout: string) =>
  `parsing time ${JSON.stringify(text)} as "${layout}": cannot parse ${JSON.stringify(text)} as "2006"`;
const SECONDS = "2006-01-02T15:04:05Z07:00";
const MICROS = "2006-01-02T15:04:05.000000Z07:00";

test.each<readonly [Scalar, unknown, string]>([
  ["string", 5n, `${NOT_INTO} number into Go struct field T.f of type string`],
  ["boolean", 1, `${NOT_INTO} number into Go struct field T.f of type bool`],
  ["int32", INT32 + 1, `${NOT_INTO} number 2147483648 into Go struct field T.f of type int32`],
  ["int32", BIG, `${NOT_INTO} number ${String(BIG)} into Go struct field T.f of type int32`],
  ["int32", true, `${NOT_INTO} bool into Go struct field T.f of type int32`],
  ["int32", "5", `${NOT_INTO} string into Go struct field T.f of type int32`],
  ["int64", 1.5, `${NOT_INTO} number 1.5 into Go struct field T.f of type int64`],
  ["double", "1", `${NOT_INTO} string into Go struct field T.f of type float64`],
  ["bytes", 5, `${NOT_INTO} number into Go struct field T.f of type []uint8`],
  ["bytes", "YWJj*", "illegal base64 data at input byte 4"],
  ["bytes", "YWJjYW*j", "illegal base64 data at input byte 6"],
  ["bytes", "YWJjY", "illegal base64 data at input byte 5"],
  ["time", 5, `${NOT_INTO} number into Go value of type string`],
  ["time", "2024-01-01", notTime("2024-01-01", SECONDS)],
  ["time", "2024-13-01T00:00:00Z", notTime("2024-13-01T00:00:00Z", SECONDS)],
  ["time", "2024-01-01T00:00:00", notTime("2024-01-01T00:00:00", SECONDS)],
  ["time", "x2024-01-01T00:00:00Z", notTime("x2024-01-01T00:00:00Z", SECONDS)],
  ["micro-time", "noon", notTime("noon", MICROS)],
  ["int-or-string", true, `${NOT_INTO} bool into Go value of type int32`],
  ["int-or-string", 1.5, `${NOT_INTO} number 1.5 into Go value of type int32`],
  ["quantity", "x", QUANTITY],
  ["quantity", true, QUANTITY],
  ["quantity", ["1"], QUANTITY],
])("rejects a value of %s: %s, %s", (scalar, given, want) => {
  expect(() => READERS[scalar](given, "T.f")).toThrow(new DecodeError(want));
});

test.each([
  ["1e30", "1e30"],
  ["1e31", undefined],
  ["1e0", "1"],
  ["10e-1", "1"],
  ["5e-3", "5e-3"],
  ["-1024Ki", "-1Mi"],
  ["-512", "-512"],
  ["512Ki", "512Ki"],
  ["1Ki", "1Ki"],
  ["1023Mi", "1023Mi"],
  ["1024Ei", "1024Ei"],
  ["2048Pi", "2Ei"],
  ["1000E", "1000E"],
  ["0.5Ki", "512"],
  [" 1 ", "1"],
  ["1.", "1"],
  [".5", "500m"],
  ["1,5", undefined],
  ["0".repeat(255) + "1", "1"],
  ["0".repeat(256) + "1", undefined],
  ["5n", "5n"],
  ["1000u", "1m"],
  ["-0", "0"],
])("the canonical form of the quantity %s is %s", (given, want) => {
  expect(canonicalQuantity(given)).toBe(want);
});

test.each([
  {
    name: "null in lists and maps is an empty value",
    type: "core.v1.PodSpec",
    given: {
      containers: [null, { command: ["a", null], resources: { limits: { cpu: null } } }],
      nodeSelector: { a: null },
      schedulerName: undefined,
    },
    want: {
      containers: [{}, { command: ["a", ""], resources: { limits: { cpu: null } } }],
      nodeSelector: { a: "" },
    },
    unknownPaths: [],
  },
  {
    name: "keys appear in the paths of object maps only",
    type: "core.v1.Secret",
    given: { data: { a: "", b: "YQ==" }, other: 1 },
    want: { data: { a: "", b: "YQ==" } },
    unknownPaths: ["other"],
  },
])("$name", ({ type, given, want, unknownPaths }) => {
  expect(decodeShape(given, typeShape(type))).toEqual({ fields: want, unknownPaths });
});

test("treats the key __proto__ like any other key", () => {
  const given = JSON.parse('{"data":{"__proto__":"x"}}') as Record<string, unknown>;
  const { fields } = decodeShape(given, typeShape("core.v1.ConfigMap"));
  expect(JSON.stringify(fields)).toBe('{"data":{"__proto__":"x"}}');
});

test("names unknown fields by their path in the request", () => {
  const given = { a: 1, metadata: { b: 1 } };
  expect(decodeShape(given, typeShape("core.v1.Pod"), "items[3]").unknownPaths).toEqual([
    "items[3].a",
    "items[3].metadata.b",
  ]);
});

test.each([
  {
    given: { data: [] },
    want: `${NOT_INTO} array into Go struct field ConfigMap.data of type map[string]string`,
  },
  {
    given: { data: "x" },
    want: `${NOT_INTO} string into Go struct field ConfigMap.data of type map[string]string`,
  },
  {
    given: { metadata: { finalizers: "x" } },
    want: `${NOT_INTO} string into Go struct field ObjectMeta.metadata.finalizers of type []string`,
  },
])("$given is not a config map: $want", ({ given, want }) => {
  expect(() => decodeShape(given, typeShape("core.v1.ConfigMap"))).toThrow(new DecodeError(want));
});

test("finds the kind of a type", () => {
  expect(findKindByType("apps.v1.Deployment")).toEqual({
    group: "apps",
    version: "v1",
    kind: "Deployment",
  });
  expect(findKindByType("core.v1.Pod")).toEqual({ group: "", version: "v1", kind: "Pod" });
  expect(findKindByType("core.v1.PodSpec")).toBeUndefined();
  expect(kindShape("v1", "Pod")?.fields.get("spec")?.required).toBe(false);
});

test.each([
  { field: "containers", required: true, merge: { strategy: "merge", key: "name" } },
  { field: "volumes", required: false, merge: { strategy: "merge,retainKeys", key: "name" } },
  { field: "tolerations", required: false, merge: undefined },
])("the field $field is required: $required, and merged by $merge", ({ field, ...want }) => {
  const { required, merge } = typeShape("core.v1.PodSpec").fields.get(field) ?? {};
  expect({ required, merge }).toEqual(want);
});

test("a set is merged without a key", () => {
  const { merge } = typeShape("meta.v1.ObjectMeta").fields.get("finalizers") ?? {};
  expect(merge).toEqual({ strategy: "merge" });
});
