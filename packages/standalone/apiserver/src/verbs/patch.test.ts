// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { aPod, widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const MAP = "/api/v1/namespaces/default/configmaps/m";
const POD = "/api/v1/namespaces/default/pods/p";
const WIDGET = "/apis/test.io/v1/namespaces/default/widgets/w";
const JSON_PATCH = "application/json-patch+json";
const MERGE = "application/merge-patch+json";
const STRATEGIC = "application/strategic-merge-patch+json";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
  await server.put("pods", aPod("p"));
  await server.put("configmaps", {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "m", namespace: "default", uid: "u" },
    data: { a: "1", b: "1" },
  });
  await server.put("test.io/widgets", {
    apiVersion: "test.io/v1",
    kind: "Widget",
    metadata: { name: "w", namespace: "default", uid: "u", generation: 1 },
    spec: { size: 1, color: "red" },
  });
});

afterEach(async () => {
  await server.close();
});

describe("types of patches", () => {
  test.each([
    {
      name: "operations",
      contentType: JSON_PATCH,
      body: [
        { op: "test", path: "/data/a", value: "1" },
        { op: "replace", path: "/data/a", value: "2" },
        { op: "remove", path: "/data/b" },
      ],
      want: { a: "2" },
    },
    {
      name: "a merge patch",
      contentType: MERGE,
      body: { data: { b: null, c: "3" } },
      want: { a: "1", c: "3" },
    },
    {
      name: "a strategic merge patch",
      contentType: STRATEGIC,
      body: { data: { $patch: "replace", c: "3" } },
      want: { c: "3" },
    },
  ])("$name", async ({ contentType, body, want }) => {
    const answer = await server.send("PATCH", MAP, { body, contentType });
    expect([answer.code, answer.body["data"]]).toEqual([200, want]);
    expect(server.stored("configmaps", "m")).toEqual(answer.body);
  });

  test("a merge patch replaces lists, a strategic merge patch merges lists by key", async () => {
    const labelled = [{ type: "Initialized", status: "True" }];
    const typesOf = async (contentType: string) => {
      const body = { status: { conditions: labelled } };
      const answer = await server.send("PATCH", `${POD}/status`, { body, contentType });
      const { conditions } = answer.body["status"] as { conditions: { type: string }[] };
      return conditions.map(({ type }) => type).sort();
    };
    expect(await typesOf(STRATEGIC)).toEqual(["Initialized", "Ready"]);
    expect(await typesOf(MERGE)).toEqual(["Initialized"]);
  });
});

describe("rejected patches", () => {
  test.each([
    {
      name: "an unsupported content type",
      path: MAP,
      contentType: "text/plain",
      body: {},
      code: 415,
      message: `the body of the request was in an unknown format - accepted media types include: ${JSON_PATCH}, ${MERGE}, ${STRATEGIC} (got text/plain)`,
    },
    {
      name: "a strategic merge patch of a custom resource",
      path: WIDGET,
      contentType: STRATEGIC,
      body: {},
      code: 415,
      message: `the body of the request was in an unknown format - accepted media types include: ${JSON_PATCH}, ${MERGE} (got ${STRATEGIC})`,
    },
    {
      name: "a merge patch that is a list",
      path: MAP,
      contentType: MERGE,
      body: [],
      code: 400,
      message: "error decoding patch: a merge patch must be an object",
    },
    {
      name: "operations that are an object",
      path: MAP,
      contentType: JSON_PATCH,
      body: {},
      code: 400,
      message: "error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch",
    },
    {
      name: "a text that is no JSON",
      path: MAP,
      contentType: MERGE,
      body: "{",
      code: 400,
      message: expect.stringContaining("json parse error") as string,
    },
    {
      name: "a test that fails",
      path: MAP,
      contentType: JSON_PATCH,
      body: [{ op: "test", path: "/data/a", value: "9" }],
      code: 422,
      message: expect.stringContaining("TestError") as string,
    },
    {
      name: "operations that replace the object by something else",
      path: MAP,
      contentType: JSON_PATCH,
      body: [{ op: "replace", path: "", value: 5 }],
      code: 422,
      message: expect.stringContaining("MissingError") as string,
    },
    {
      name: "a strategic merge patch that deletes everything",
      path: MAP,
      contentType: STRATEGIC,
      body: { $patch: "delete" },
      code: 400,
      message: "the name of the object (m based on URL) was undeterminable: name must be provided",
    },
    {
      name: "another name",
      path: MAP,
      contentType: MERGE,
      body: { metadata: { name: "x" } },
      code: 400,
      message: "the name of the object (x) does not match the name on the URL (m)",
    },
    {
      name: "another namespace",
      path: MAP,
      contentType: MERGE,
      body: { metadata: { namespace: "other" } },
      code: 400,
      message:
        "the namespace of the provided object does not match the namespace sent on the request",
    },
    {
      name: "another uid",
      path: MAP,
      contentType: MERGE,
      body: { metadata: { uid: "x" } },
      code: 422,
      message: 'ConfigMap "m" is invalid: metadata.uid: Invalid value: "x": field is immutable',
    },
    {
      name: "an old version",
      path: MAP,
      contentType: MERGE,
      body: { metadata: { resourceVersion: "1" } },
      code: 409,
      message: expect.stringContaining("the object has been modified") as string,
    },
    {
      name: "a field of the wrong type",
      path: MAP,
      contentType: MERGE,
      body: { data: 7 },
      code: 422,
      message: expect.stringMatching(
        /^ "" is invalid: patch: Invalid value: .*data\\":7/,
      ) as string,
    },
    {
      name: "an unknown field with strict validation",
      path: `${MAP}?fieldValidation=Strict`,
      contentType: MERGE,
      body: { nope: 1 },
      code: 422,
      message: expect.stringMatching(/: strict decoding error: unknown field "nope"$/) as string,
    },
    {
      name: "a custom resource of another kind",
      path: WIDGET,
      contentType: MERGE,
      body: { kind: "Gadget" },
      code: 422,
      message: 'Widget.test.io "w" is invalid: kind: Invalid value: "Gadget": must be Widget',
    },
    {
      name: "an unknown object",
      path: `${MAP}-none`,
      contentType: MERGE,
      body: {},
      code: 404,
      message: 'configmaps "m-none" not found',
    },
  ])("$name: $code", async ({ path, contentType, body, code, message }) => {
    const before = server.deps.store.revision();
    const answer = await server.send("PATCH", path, { contentType, body });
    expect([answer.code, answer.body.message]).toEqual([code, message]);
    expect(server.deps.store.revision()).toBe(before);
  });

  test("reports the causes from the patch", async () => {
    const { body } = await server.send("PATCH", MAP, { body: { data: 7 } });
    expect(body.details).toMatchObject({
      causes: [{ field: "patch", reason: "FieldValueInvalid" }],
    });
    expect(body.details.kind).toBeUndefined();
    const strict = await server.send("PATCH", `${MAP}?fieldValidation=Strict`, {
      body: { nope: 1 },
    });
    const [cause] = strict.body.details.causes ?? [];
    expect(cause?.message).toContain('}": strict decoding error: unknown field "nope"');
  });
});

describe("versions and uids in a patch", () => {
  test.each([
    { name: "the current version", metadata: { current: true } },
    { name: "the uid of the object", metadata: { uid: "u" } },
    { name: "no version, by null", metadata: { resourceVersion: null } },
  ])("$name: 200", async ({ metadata }) => {
    const { current, ...given } = { current: false, ...metadata };
    const version = server.stored("configmaps", "m")?.metadata.resourceVersion;
    const own = current ? { resourceVersion: version } : given;
    const answer = await server.send("PATCH", MAP, { body: { metadata: own, data: { a: "2" } } });
    expect([answer.code, answer.body["data"]]).toEqual([200, { a: "2", b: "1" }]);
  });

  test("a patch that removes the uid preserves the uid", async () => {
    const body = [
      { op: "remove", path: "/metadata/uid" },
      { op: "replace", path: "/data/a", value: "2" },
    ];
    const answer = await server.send("PATCH", MAP, { body, contentType: JSON_PATCH });
    expect([answer.code, answer.body.metadata.uid]).toEqual([200, "u"]);
  });

  test.each([
    {
      name: "a merge patch of a version loses at once",
      contentType: MERGE,
      code: 409,
      attempts: 1,
    },
    { name: "operations do not name a version", contentType: JSON_PATCH, code: 200, attempts: 2 },
  ])("a race: $name", async ({ contentType, code, attempts }) => {
    const current = (await server.send("GET", MAP)).body;
    let count = 0;
    server.webhooks.onRequest = async ({ phase }) => {
      if (phase !== "validate") return;
      count += 1;
      if (count > 1) return;
      await server.put("configmaps", { ...current, apiVersion: "v1", kind: "ConfigMap" });
    };
    const body =
      contentType === MERGE
        ? { metadata: { resourceVersion: current.metadata.resourceVersion }, data: { a: "2" } }
        : [{ op: "replace", path: "/data/a", value: "2" }];
    const answer = await server.send("PATCH", MAP, { body, contentType });
    expect([answer.code, count]).toEqual([code, attempts]);
  });
});

test("warns about unknown fields and fields without effect", async () => {
  const answer = await server.send("PATCH", MAP, { body: { nope: 1, data: { a: "2" } } });
  expect([answer.code, answer.warnings]).toEqual([200, ['unknown field "nope"']]);
  const spec = {
    selector: { matchLabels: { a: "b" } },
    template: {
      metadata: { labels: { a: "b" } },
      spec: { containers: [{ name: "c", image: "i" }] },
    },
  };
  const path = "/apis/apps/v1/namespaces/default/replicasets";
  await server.send("POST", path, { body: { metadata: { name: "r" }, spec } });
  const warned = await server.send("PATCH", `${path}/r`, { body: { spec: { replicas: 2 } } });
  expect([warned.code, warned.warnings.length]).toEqual([200, 1]);
});
