// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";
import { decodeObject } from "./decode.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets";

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
});

afterAll(async () => {
  await server.close();
});

const WIDGET = { apiVersion: "test.io/v1", kind: "Widget", metadata: { name: "w" } };

describe("rejected bodies", () => {
  test.each([
    {
      name: "another version of a built-in kind",
      path: MAPS,
      body: { apiVersion: "v2", metadata: { name: "a" } },
      code: 400,
      message: "the API version in the data (v2) does not match the expected API version (v1)",
    },
    {
      name: "another group of a built-in kind",
      path: LEASES,
      body: { apiVersion: "v1", metadata: { name: "a" } },
      code: 400,
      message:
        "the API version in the data (v1) does not match the expected API version (coordination.k8s.io/v1)",
    },
    {
      name: "another kind",
      path: MAPS,
      body: { kind: "Secret", metadata: { name: "a" } },
      code: 400,
      message:
        'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (ConfigMap): unknown conversion',
    },
    {
      name: "a field of the wrong type",
      path: MAPS,
      body: { metadata: { name: "a" }, data: 7 },
      code: 400,
      message: expect.stringMatching(
        /^ConfigMap in version "v1" cannot be handled as a ConfigMap: .*data/,
      ) as string,
    },
    {
      name: "a custom resource without a kind",
      path: WIDGETS,
      body: { apiVersion: "test.io/v1" },
      code: 400,
      message: `Object 'Kind' is missing in '{"apiVersion":"test.io/v1"}'`,
    },
    {
      name: "a custom resource without a version",
      path: WIDGETS,
      body: { kind: "Widget" },
      code: 400,
      message: `Object 'apiVersion' is missing in '{"kind":"Widget"}'`,
    },
    {
      name: "a custom resource of another version",
      path: WIDGETS,
      body: { ...WIDGET, apiVersion: "test.io/v9" },
      code: 400,
      message:
        "the API version in the data (test.io/v9) does not match the expected API version (test.io/v1)",
    },
    {
      name: "a custom resource of another kind",
      path: WIDGETS,
      body: { ...WIDGET, kind: "Gadget" },
      code: 422,
      message: 'Widget.test.io "w" is invalid: kind: Invalid value: "Gadget": must be Widget',
    },
    {
      name: "a custom resource whose metadata is no object",
      path: WIDGETS,
      body: { ...WIDGET, metadata: "text" },
      code: 400,
      message: expect.stringContaining("v1.ObjectMeta") as string,
    },
    {
      name: "a custom resource whose labels are no map",
      path: WIDGETS,
      body: { ...WIDGET, metadata: { name: "w", labels: ["a"] } },
      code: 400,
      message: expect.stringContaining(
        'Widget in version "v1" cannot be handled as a Widget',
      ) as string,
    },
  ])("$name: $code", async ({ path, body, code, message }) => {
    const answer = await server.send("POST", path, { body });
    expect([answer.code, answer.body.message]).toEqual([code, message]);
  });

  test.each([
    { name: "without metadata", metadata: undefined },
    { name: "with metadata of null", metadata: null },
  ])("a custom resource $name has no name and fails with 422", async ({ metadata }) => {
    const answer = await server.send("POST", WIDGETS, { body: { ...WIDGET, metadata } });
    expect(answer).toMatchObject({
      code: 422,
      body: { details: { causes: [{ field: "metadata.name" }] } },
    });
  });
});

test("a built-in kind may omit its kind and version", async () => {
  const { code, body } = await server.send("POST", MAPS, { body: { metadata: { name: "short" } } });
  expect([code, body["apiVersion"], body["kind"]]).toEqual([201, "v1", "ConfigMap"]);
});

describe("unknown fields are reported with their path, and dropped if the kind has a schema", () => {
  const cases = [
    {
      name: "of a built-in kind",
      group: "",
      resource: "configmaps",
      fields: { metadata: { name: "a", nope: 1 }, data: { k: "v" }, extra: { a: 1 } },
      want: {
        unknownPaths: ["metadata.nope", "extra"],
        object: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" }, data: { k: "v" } },
      },
    },
    {
      name: "of a custom resource",
      group: "test.io",
      resource: "widgets",
      fields: { ...WIDGET, metadata: { name: "w", nope: 1 }, spec: { size: 1, nope: 2 } },
      want: {
        unknownPaths: ["metadata.nope", "spec.nope"],
        object: { ...WIDGET, spec: { size: 1, nope: 2 } },
      },
    },
    {
      name: "of a custom resource without metadata",
      group: "test.io",
      resource: "widgets",
      fields: { ...WIDGET, metadata: null },
      want: { unknownPaths: [], object: { ...WIDGET, metadata: { name: "" } } },
    },
  ] as const;

  test.each(cases)("$name", ({ group, resource, fields, want }) => {
    const kind = server.deps.registry.find(group, "v1", resource);
    if (kind === undefined) throw new Error(`${resource} are not served`);
    const { object, unknownPaths } = decodeObject(kind, structuredClone(fields));
    expect({ object, unknownPaths: [...unknownPaths].sort() }).toEqual({
      ...want,
      unknownPaths: [...want.unknownPaths].sort(),
    });
  });
});
