// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { buildManagedFields } from "./managed-fields.ts";

function anObject(fields: Fields, metadata: Fields = {}): KubeObject {
  return { apiVersion: "v1", kind: "Thing", metadata: { name: "t", ...metadata }, ...fields };
}

test("the first manager owns all fields except the status", () => {
  const metadata = { creationTimestamp: "2026-01-01T00:00:00Z", uid: "u", resourceVersion: "7" };
  const owned = { labels: { a: "b" }, annotations: { c: "d" }, finalizers: ["x/y"] };
  const object = anObject({ data: { k: "v" } }, { ...metadata, ...owned });
  expect(buildManagedFields(object)).toEqual([
    {
      manager: "patchbay",
      operation: "Update",
      apiVersion: "v1",
      time: "2026-01-01T00:00:00Z",
      fieldsType: "FieldsV1",
      fieldsV1: {
        "f:metadata": {
          "f:labels": { "f:a": {} },
          "f:annotations": { "f:c": {} },
          "f:finalizers": {},
        },
        "f:data": { "f:k": {} },
      },
    },
  ]);
});

test("the second manager owns the status", () => {
  const [main, status] = buildManagedFields(anObject({ spec: { a: 1 }, status: { phase: "x" } }));
  expect(main).toMatchObject({ time: "1970-01-01T00:00:00Z" });
  expect(main?.["fieldsV1"]).toEqual({ "f:metadata": {}, "f:spec": { "f:a": {} } });
  expect(main).not.toHaveProperty("subresource");
  expect(status).toMatchObject({
    subresource: "status",
    fieldsV1: { "f:status": { "f:phase": {} } },
  });
});

describe("items of a list are identified by", () => {
  test.each([
    { item: { name: "n", uid: "u" }, want: 'k:{"name":"n"}' },
    { item: { uid: "u", type: "t" }, want: 'k:{"uid":"u"}' },
    { item: { type: "t", containerPort: 80 }, want: 'k:{"type":"t"}' },
    { item: { containerPort: 80, ip: "10.0.0.1" }, want: 'k:{"containerPort":80}' },
    { item: { ip: "10.0.0.1" }, want: 'k:{"ip":"10.0.0.1"}' },
    { item: { name: null, value: "v" }, want: "i:0" },
  ])("$want", ({ item, want }) => {
    const [main] = buildManagedFields(anObject({ list: [item, "text"] }));
    const fields = Object.keys(item).map((name) => [`f:${name}`, {}] as const);
    expect(main?.["fieldsV1"]).toEqual({
      "f:metadata": {},
      "f:list": { [want]: { ".": {}, ...Object.fromEntries(fields) } },
    });
  });
});
