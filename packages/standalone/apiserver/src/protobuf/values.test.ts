// SPDX-License-Identifier: Apache-2.0
// Values of each type in bodies of typed clients, byte by byte.
import { expect, test } from "vitest";
import { decodeProtobuf } from "./decode.ts";

type Part = string | readonly number[];

const bytes = (parts: readonly Part[]): number[] =>
  parts.flatMap((part) => (typeof part === "string" ? [...Buffer.from(part)] : part));

/** A field with bytes, fewer than 128, whose number is below 16. */
function field(number: number, ...parts: readonly Part[]): number[] {
  const content = bytes(parts);
  return [number * 8 + 2, content.length, ...content];
}

const number = (tag: number, ...value: readonly number[]) => [tag * 8, ...value];
/** -1 as a 64-bit number. */
const MINUS_ONE = [...Array.from({ length: 9 }, () => 0xff), 1];

function body(kind: string, ...parts: readonly Part[]): Buffer {
  const typeMeta = field(1, field(1, "v1"), field(2, kind));
  return Buffer.from([...Buffer.from("k8s\0"), ...typeMeta, ...field(2, ...parts)]);
}

const meta = (...parts: readonly Part[]) => field(1, ...parts);
const spec = (...parts: readonly Part[]) => field(2, ...parts);
/** 1,704,074,752 s: 2024-01-01T02:05:52Z. */
const SECONDS = number(1, 0x80, 0xbc, 0xc8, 0xac, 6);

test.each<{ name: string; kind: string; parts: readonly Part[]; want: object }>([
  { name: "no fields", kind: "Namespace", parts: [], want: {} },
  {
    name: "texts, and drops empty texts",
    kind: "ConfigMap",
    parts: [meta(field(1, "n"), field(3, ""))],
    want: { metadata: { name: "n" } },
  },
  {
    name: "numbers, and retains 0 in fields that Go always writes",
    kind: "ConfigMap",
    parts: [meta(number(7, 0), number(10, 0))],
    want: { metadata: { deletionGracePeriodSeconds: 0 } },
  },
  {
    name: "multi-byte and negative numbers",
    kind: "ConfigMap",
    parts: [meta(number(7, 0x96, 1), number(10, ...MINUS_ONE))],
    want: { metadata: { generation: 150, deletionGracePeriodSeconds: -1 } },
  },
  {
    name: "a true boolean",
    kind: "ConfigMap",
    parts: [field(4, ""), number(4, 1)],
    want: { immutable: true },
  },
  {
    name: "a false boolean",
    kind: "ConfigMap",
    parts: [number(4, 0)],
    want: { immutable: false },
  },
  {
    name: "false flags, which are dropped",
    kind: "PriorityClass",
    parts: [number(3, 0), number(2, 5)],
    want: { value: 5 },
  },
  {
    name: "true flags",
    kind: "PriorityClass",
    parts: [number(3, 1)],
    want: { globalDefault: true },
  },
  {
    name: "times, and drops empty times",
    kind: "ConfigMap",
    parts: [meta(field(8, SECONDS, number(2, 5)), field(9, ""))],
    want: { metadata: { creationTimestamp: "2024-01-01T02:05:52Z" } },
  },
  {
    name: "times with microseconds",
    kind: "Lease",
    parts: [spec(field(3, SECONDS, number(2, 0xc0, 0xc4, 7)), field(4, SECONDS))],
    want: {
      spec: {
        acquireTime: "2024-01-01T02:05:52.000123Z",
        renewTime: "2024-01-01T02:05:52.000000Z",
      },
    },
  },
  {
    name: "lists and maps",
    kind: "ConfigMap",
    parts: [
      meta(
        field(14, "a"),
        field(14, "b"),
        field(11, field(1, "k"), field(2, "v")),
        field(11, field(1, "l")),
      ),
      field(3, field(1, "b"), field(2, [1, 2])),
    ],
    want: {
      metadata: { finalizers: ["a", "b"], labels: { k: "v", l: "" } },
      binaryData: { b: "AQI=" },
    },
  },
  {
    name: "numbers or texts",
    kind: "PodDisruptionBudget",
    parts: [spec(field(1, number(1, 1), field(3, "5%")), field(3, number(1, 0), number(2, 7)))],
    want: { spec: { minAvailable: "5%", maxUnavailable: 7 } },
  },
  {
    name: "quantities",
    kind: "ResourceQuota",
    parts: [spec(field(1, field(1, "cpu"), field(2, field(1, "1500m"))))],
    want: { spec: { hard: { cpu: "1500m" } } },
  },
  {
    name: "managed fields and empty unknown fields, which are dropped",
    kind: "Namespace",
    parts: [meta(field(1, "n"), [0x8a, 1, 1, 0x61]), field(9)],
    want: { metadata: { name: "n" } },
  },
  {
    name: "a namespace's status",
    kind: "Namespace",
    parts: [
      field(
        3,
        field(1, "Active"),
        field(2, field(1, "C"), field(2, "True"), field(4, SECONDS), field(5, "R"), field(6, "m")),
      ),
    ],
    want: {
      status: {
        phase: "Active",
        conditions: [
          {
            type: "C",
            status: "True",
            lastTransitionTime: "2024-01-01T02:05:52Z",
            reason: "R",
            message: "m",
          },
        ],
      },
    },
  },
  {
    name: "a Service's status",
    kind: "Service",
    parts: [
      field(
        3,
        field(1, field(1, field(1, "192.0.2.1")), field(1, field(2, "lb.example"))),
        field(2, field(1, "C"), number(3, 7)),
      ),
    ],
    want: {
      status: {
        loadBalancer: { ingress: [{ ip: "192.0.2.1" }, { hostname: "lb.example" }] },
        conditions: [{ type: "C", observedGeneration: 7 }],
      },
    },
  },
  {
    name: "a status without a table that is empty, as in a new object",
    kind: "Deployment",
    parts: [field(3, number(1, 0), number(2, 0), field(6), field(7, field(1)))],
    want: {},
  },
  {
    name: "a key named like a prototype",
    kind: "ConfigMap",
    parts: [field(2, field(1, "__proto__"), field(2, "v"))],
    want: { data: JSON.parse('{"__proto__":"v"}') as object },
  },
])("$name", ({ kind, parts, want }) => {
  expect(decodeProtobuf(body(kind, ...parts))).toEqual({ apiVersion: "v1", kind, ...want });
});

test.each<{ kind: string; parts: readonly Part[] }>([
  { kind: "Deployment", parts: [number(1, 3)] },
  { kind: "Job", parts: [field(1, field(1, "Complete"))] },
  { kind: "CronJob", parts: [field(4, SECONDS)] },
  { kind: "ResourceQuota", parts: [field(1, field(1, "pods"), field(2, field(1, "3")))] },
  { kind: "PodDisruptionBudget", parts: [number(3, 1)] },
  {
    kind: "PodDisruptionBudget",
    parts: [field(2, field(1, field(1, field(1, field(1, field(1))))))],
  },
  { kind: "TokenReview", parts: [number(1, 1)] },
  { kind: "SubjectAccessReview", parts: [field(3, "because")] },
])("rejects, not drops, the status of a $kind without a table", ({ kind, parts }) => {
  expect(decodeProtobuf(body(kind, field(3, ...parts)))).toBeUndefined();
});

/** Fields 37 and 30 of a PodSpec: their tags take two bytes. */
const HOST_USERS = [0xa8, 2, 0];
const ENABLE_SERVICE_LINKS = [0xf0, 1, 0];
test.each([
  { name: "hostUsers: false", bytes: HOST_USERS },
  { name: "enableServiceLinks: false", bytes: ENABLE_SERVICE_LINKS },
])("rejects, not drops, $name of a template", ({ bytes: podSpec }) => {
  expect(decodeProtobuf(body("Deployment", spec(field(3, spec(podSpec)))))).toBeUndefined();
});

test.each<{ name: string; parts: readonly Part[] }>([
  { name: "a number", parts: [number(9, 1)] },
  { name: "a number 0, which a pointer may name,", parts: [number(9, 0)] },
  { name: "a string", parts: [field(9, "x")] },
  { name: "a 64-bit value", parts: [[9 * 8 + 1, 0, 0, 0, 0, 0, 0, 0, 0]] },
  { name: "a 32-bit value", parts: [[9 * 8 + 5, 0, 0, 0, 0]] },
])("does not silently drop $name in an unknown field", ({ parts }) => {
  expect(decodeProtobuf(body("Namespace", ...parts))).toBeUndefined();
});

test.each<{ name: string; parts: readonly Part[] }>([
  { name: "a truncated 64-bit value", parts: [[9 * 8 + 1, 0, 0, 0, 0, 0, 0, 0]] },
  { name: "a truncated 32-bit value", parts: [[9 * 8 + 5, 0, 0, 0]] },
  { name: "an unknown kind of field", parts: [[9 * 8 + 3, 0]] },
  { name: "a string longer than the body", parts: [[9 * 8 + 2, 5, 0x61]] },
  {
    name: "a number of eleven bytes",
    parts: [number(7, ...Array.from({ length: 11 }, () => 0x80), 0)],
  },
  { name: "an unterminated number", parts: [number(7, 0x80)] },
])("rejects $name as damaged", ({ parts }) => {
  expect(() => decodeProtobuf(body("Namespace", ...parts))).toThrow(SyntaxError);
});

test("does not decode a body without a kind or of kind toString", () => {
  expect(decodeProtobuf(Buffer.from("k8s\0"))).toBeUndefined();
  expect(decodeProtobuf(body("toString"))).toBeUndefined();
});
