// SPDX-License-Identifier: Apache-2.0
// Small bodies whose parsing time grows with the square of their length.
import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiServerProcess } from "../api-server-process.ts";

const CORE = "/api/v1/namespaces/default";
const MAPS = `${CORE}/configmaps`;
const REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const JSON_TYPE = "application/json";
const YAML = "application/yaml";
const PROTOBUF = "application/vnd.kubernetes.protobuf";
const STRATEGIC = "application/strategic-merge-patch+json";
/** Longest blocking in processor time; the bodies once took 2 s to 34 s. */
const TURN_MS = 300;

let api: ApiServerProcess;

beforeAll(async () => {
  api = await ApiServerProcess.start();
  await api.ask("POST", MAPS, '{"metadata":{"name":"target"}}');
  // Loads the YAML library before the measurement.
  await api.sendAs(YAML, MAPS, "metadata: {name: first}");
});
afterAll(() => api[Symbol.asyncDispose]());

function varint(value: number): readonly number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)];
}

/** A length-delimited field. Source: Protocol Buffers, "Encoding". */
function field(number: number, content: Buffer | string): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);
}

function review(metadata: readonly Buffer[]): Buffer {
  const type = [field(1, "authorization.k8s.io/v1"), field(2, "SelfSubjectAccessReview")];
  const object = field(1, Buffer.concat(metadata));
  return Buffer.concat([
    Buffer.from("k8s\0"),
    field(1, Buffer.concat(type)),
    field(2, Buffer.concat([object, field(2, "")])),
  ]);
}

function times<Item>(count: number, make: (index: number) => Item): readonly Item[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

function label(index: number): Buffer {
  return field(11, Buffer.concat([field(1, `k${String(index)}`), field(2, "v")]));
}

function finalizers(count: number): readonly string[] {
  return times(count, (index) => `a/b${String(index)}`);
}

function podWith(cpu: string): string {
  const container = { name: "c", image: "i", resources: { limits: { cpu } } };
  return JSON.stringify({ metadata: { name: "p" }, spec: { containers: [container] } });
}

const ORDER = { finalizers: finalizers(4000), "$setElementOrder/finalizers": finalizers(4000) };
const PORTS = times(10_000, (index) => ({ name: `n${String(index)}`, port: index + 1 }));
const TWICE = times(150, (index) => `"a${String(index)}":1,"a${String(index)}":1`).join(",");

interface Row {
  readonly what: string;
  readonly path: string;
  readonly type: string;
  readonly body: string | Buffer;
  readonly code: number;
}

/** YAML rows: a unit repeated 40,000 times, which is rejected, and 700 times, which is read. */
function yamlRows(what: string, unit: string): readonly Row[] {
  const row = { path: REVIEWS, type: YAML };
  return [
    { ...row, what: `40,000 ${what} in YAML`, body: unit.repeat(40_000), code: 413 },
    { ...row, what: `700 ${what} in YAML`, body: unit.repeat(700), code: 400 },
  ];
}

const ROWS: readonly Row[] = [
  {
    what: "5,000 labels in protobuf",
    path: REVIEWS,
    type: PROTOBUF,
    code: 422,
    body: review(times(5000, label)),
  },
  {
    what: "10,000 finalizers in protobuf",
    path: REVIEWS,
    type: PROTOBUF,
    code: 422,
    body: review(finalizers(10_000).map((name) => field(14, name))),
  },
  {
    what: "300,000 labels in protobuf",
    path: REVIEWS,
    type: PROTOBUF,
    code: 413,
    body: review(times(300_000, label)),
  },
  ...yamlRows("anchors", "&a "),
  ...yamlRows("closing brackets", "]"),
  ...yamlRows("escapes", String.raw`"\x`),
  ...yamlRows("keys that are keys", "? "),
  ...yamlRows("lists in lists", "- "),
  ...yamlRows("lines with the same key", "a\n"),
  {
    what: "4,000 finalizers and their order",
    path: `${MAPS}/target`,
    type: STRATEGIC,
    code: 200,
    body: JSON.stringify({ metadata: ORDER }),
  },
  {
    what: "10,000 node ports, where 2,768 exist",
    path: `${CORE}/services`,
    type: JSON_TYPE,
    code: 422,
    body: JSON.stringify({ metadata: { name: "s" }, spec: { type: "NodePort", ports: PORTS } }),
  },
  {
    what: "150 fields that are there twice below a key of a million characters",
    path: MAPS,
    type: JSON_TYPE,
    code: 201,
    body: `{"metadata":{"name":"twice"},"${"x".repeat(1_000_000)}":{${TWICE}}}`,
  },
  {
    what: "a number with 2,000,000 digits",
    path: MAPS,
    type: JSON_TYPE,
    code: 400,
    body: `{"metadata":{"name":"long"},"x":${"9".repeat(2_000_000)}}`,
  },
  {
    what: "a quantity with 2,000,000 digits",
    path: `${CORE}/pods`,
    type: JSON_TYPE,
    code: 400,
    body: podWith("9".repeat(2_000_000)),
  },
];

test.each(ROWS)(
  "attack 129: requests with $what do not block other clients",
  async ({ path, type, body, code }) => {
    await api.longestTurnMs();
    const answer = api.sendAs(type, path, body);
    await api.greet();
    expect(await answer).toMatchObject({ code });
    expect(await api.longestTurnMs()).toBeLessThan(TURN_MS);
  },
);
