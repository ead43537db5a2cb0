// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import fc from "fast-check";
import { type TestServer, startTestServer } from "../../testing/test-server.ts";
import { findDuplicateFields } from "./field-validation.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
});

afterEach(async () => {
  await server.close();
});

const FAULTY = '{"metadata":{"name":"a"},"data":{"k":"1","k":"2"},"nope":1}';
const BOTH = ['duplicate field "data.k"', 'unknown field "nope"'];

describe("validation of unknown and duplicate fields", () => {
  test.each([
    { mode: "", warnings: BOTH },
    { mode: "?fieldValidation=", warnings: BOTH },
    { mode: "?fieldValidation=Warn", warnings: BOTH },
    { mode: "?fieldValidation=Ignore", warnings: [] },
  ])("'$mode' accepts the object with $warnings.length warnings", async ({ mode, warnings }) => {
    const answer = await server.send("POST", `${MAPS}${mode}`, { body: FAULTY });
    expect([answer.code, answer.warnings, answer.body["data"]]).toEqual([
      201,
      warnings,
      { k: "2" },
    ]);
  });

  test("Strict rejects the object and reports all of its faults", async () => {
    const answer = await server.send("POST", `${MAPS}?fieldValidation=Strict`, { body: FAULTY });
    expect([answer.code, answer.body.message, server.stored("configmaps", "a")]).toEqual([
      400,
      `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: ${BOTH.join(", ")}`,
      undefined,
    ]);
  });

  test("Strict accepts an object without faults", async () => {
    const body = { metadata: { name: "a" }, data: { k: "1" } };
    const answer = await server.send("POST", `${MAPS}?fieldValidation=Strict`, { body });
    expect([answer.code, answer.warnings]).toEqual([201, []]);
  });

  test.each(["POST", "PUT", "PATCH"])("rejects an unknown mode in %s with 422", async (method) => {
    await server.send("POST", MAPS, { body: { metadata: { name: "a" } } });
    const path = method === "POST" ? MAPS : `${MAPS}/a`;
    const body = { metadata: { name: "a" } };
    const answer = await server.send(method, `${path}?fieldValidation=Loud`, { body });
    const kinds = { POST: "CreateOptions", PUT: "UpdateOptions", PATCH: "PatchOptions" };
    expect([answer.code, answer.body.details]).toMatchObject([
      422,
      {
        group: "meta.k8s.io",
        kind: kinds[method as keyof typeof kinds],
        causes: [
          {
            field: "fieldValidation",
            reason: "FieldValueNotSupported",
            message: 'Unsupported value: "Loud": supported values: "", "Ignore", "Strict", "Warn"',
          },
        ],
      },
    ]);
  });

  test("does not search YAML for duplicates, which YAML forbids", async () => {
    const body = 'metadata: {name: a}\nnope: 1\ndata: {k: \'{"a":1,"a":2}\'}\n';
    const answer = await server.send("POST", MAPS, { body, contentType: "application/yaml" });
    expect([answer.code, answer.warnings]).toEqual([201, ['unknown field "nope"']]);
  });

  test("truncates long paths, and reports at most a hundred", async () => {
    const long = "x".repeat(300);
    const many = Object.fromEntries(
      Array.from({ length: 101 }, (_, index) => [`f${String(index)}`, 1]),
    );
    const cut = await server.send("POST", MAPS, { body: { metadata: { name: "a" }, [long]: 1 } });
    expect(cut.warnings).toEqual([`unknown field "${"x".repeat(256)}..."`]);
    const fits = "y".repeat(256);
    const whole = await server.send("POST", MAPS, { body: { metadata: { name: "b" }, [fits]: 1 } });
    expect(whole.warnings).toEqual([`unknown field "${fits}"`]);
    const all = await server.send("POST", MAPS, { body: { metadata: { name: "c" }, ...many } });
    expect(all.warnings).toHaveLength(100);
  });
});

describe("bodies", () => {
  test.each([
    { name: "an unsupported content type", contentType: "text/plain", body: "{}", code: 415 },
    { name: "a list", contentType: "application/json", body: "[]", code: 400 },
    { name: "a truncated text", contentType: "application/json", body: "{", code: 400 },
  ])("$name: $code", async ({ contentType, body, code }) => {
    expect((await server.send("POST", MAPS, { contentType, body })).code).toBe(code);
  });
});

test("a kind warns about fields without effect", async () => {
  const spec = {
    selector: { matchLabels: { a: "b" } },
    template: {
      metadata: { labels: { a: "b" } },
      spec: { containers: [{ name: "c", image: "i" }] },
    },
  };
  const answer = await server.send("POST", "/apis/apps/v1/namespaces/default/replicasets", {
    body: { metadata: { name: "r" }, spec },
  });
  expect([answer.code, answer.warnings]).toEqual([201, [expect.stringContaining("ReplicaSet")]]);
});

test.each([
  { text: '{"a":1,"b":2}', want: [] },
  { text: '{"a":1,"a":2}', want: ["a"] },
  { text: '{"a":{"b":1,"c":[{"d":1},{"d":1,"d":2}]}}', want: ["a.c[1].d"] },
  { text: '{"a":{"b":1},"c":{"b":1}}', want: [] },
  { text: '{"a":"x,\\"a\\":","b":["a","a"]}', want: [] },
  { text: '{"a":1,"a":1,"a":1}', want: ["a", "a"] },
  { text: '{"\\u0061":1,"a":1}', want: ["a"] },
  { text: '[{"op":1,"op":2}]', want: ["[0].op"] },
  { text: "", want: [] },
])("finds the duplicates in $text: $want", ({ text, want }) => {
  expect(findDuplicateFields(text)).toEqual(want);
});

test("finds no duplicates in printed JSON", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(findDuplicateFields(JSON.stringify(value))).toEqual([]);
    }),
  );
});
