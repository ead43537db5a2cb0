// SPDX-License-Identifier: Apache-2.0
// Objects that clients see in another form than the store: events in two groups, custom resources in several versions.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { widgetDefinition } from "../testing/objects.ts";
import { type TestServer, runTurns, startTestServer } from "../testing/test-server.ts";

const CORE = "/api/v1/namespaces/default/events";
const NEW = "/apis/events.k8s.io/v1/namespaces/default/events";
const DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions";
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
});

afterEach(async () => {
  await server.close();
});

describe("events", () => {
  const involvedObject = { kind: "Pod", name: "p", namespace: "default" };
  const core = { apiVersion: "v1", kind: "Event", message: "hello", involvedObject };
  const shown = { apiVersion: "events.k8s.io/v1", note: "hello", regarding: involvedObject };

  beforeEach(async () => {
    await server.put("events", { ...core, metadata: { name: "e", namespace: "default" } });
  });

  test.each([
    { name: "GET", path: `${NEW}/e`, of: (body: Fields) => body },
    { name: "LIST", path: NEW, of: ({ items }: Fields) => (items as Fields[])[0] },
  ])("$name returns the newer version", async ({ path, of }) => {
    const { body } = await server.send("GET", path);
    const event = of(body);
    expect(event).toMatchObject(shown);
    expect([event?.["message"], event?.["involvedObject"]]).toEqual([undefined, undefined]);
  });

  test("a watch returns the newer version", async () => {
    const { response } = server.watch(`${NEW}?watch=1`);
    await runTurns();
    expect(response.events).toMatchObject([{ type: "ADDED", object: shown }]);
  });

  test("field selectors accept fields of the newer version", async () => {
    const path = `${NEW}?fieldSelector=regarding.name%3Dp`;
    expect((await server.send("GET", path)).body.items).toHaveLength(1);
  });

  test("a change in the newer version is stored in the older version", async () => {
    const answer = await server.send("PATCH", `${NEW}/e`, { body: { note: "changed" } });
    expect([answer.code, answer.body["note"]]).toEqual([200, "changed"]);
    expect(server.stored("events", "e")).toMatchObject({ ...core, message: "changed" });
    expect(server.stored("events", "e")?.["note"]).toBeUndefined();
  });

  test("a new event in the newer version is stored in the older version", async () => {
    const made = {
      metadata: { name: "n" },
      note: "new",
      regarding: involvedObject,
      eventTime: "1970-01-01T00:00:00.000000Z",
      reportingController: "test.io/c",
      reportingInstance: "i",
      action: "Tested",
      reason: "Test",
      type: "Normal",
    };
    expect((await server.send("POST", NEW, { body: made })).code).toBe(201);
    expect((await server.send("GET", `${CORE}/n`)).body).toMatchObject({ ...core, message: "new" });
  });

  test("the last state of a deleted event is the stored state", async () => {
    const before = server.deps.store.revision();
    await server.send("DELETE", `${NEW}/e`);
    const [change] = server.deps.store.changesAfter({ bucket: "/events" }, before, 1) ?? [];
    expect(change?.current.view()).toMatchObject(core);
  });
});

describe("custom resources", () => {
  const widget = {
    apiVersion: "test.io/v1",
    kind: "Widget",
    metadata: { name: "w", namespace: "default", generation: 1 },
    spec: { size: 1, unknown: 2 },
  };

  test("an object older than its definition is pruned and defaulted when it is read", async () => {
    await server.put("test.io/widgets", widget);
    await server.put(DEFINITIONS, widgetDefinition());
    const spec = { size: 1, color: "red" };
    const read = await server.send("GET", `${WIDGETS}/w`);
    const listed = await server.send("GET", `${WIDGETS}?labelSelector=!a`);
    expect([read.body["spec"], listed.body.items[0]?.["spec"]]).toEqual([spec, spec]);
    expect(read.body.metadata.resourceVersion).toBe(String(server.deps.store.revision() - 1));
  });

  test("an object that is newer than its definition is returned as stored", async () => {
    await server.put(DEFINITIONS, widgetDefinition());
    await server.put("test.io/widgets", widget);
    expect((await server.send("GET", `${WIDGETS}/w`)).body["spec"]).toEqual(widget.spec);
  });

  test("another version is returned with its own apiVersion and stored with the storage version", async () => {
    await server.put(DEFINITIONS, widgetDefinition());
    const path = WIDGETS.replace("/v1/", "/v2/");
    const body = { ...widget, apiVersion: "test.io/v2" };
    const made = await server.send("POST", path, { body });
    expect([made.code, made.body["apiVersion"]]).toEqual([201, "test.io/v2"]);
    const changed = await server.send("PATCH", `${path}/w`, { body: { spec: { size: 3 } } });
    expect(changed.body).toMatchObject({ apiVersion: "test.io/v2", spec: { size: 3 } });
    expect(server.stored("test.io/widgets", "w")).toMatchObject({
      apiVersion: "test.io/v1",
      spec: { size: 3, color: "red" },
    });
  });

  test("without a status subresource the status is written and counted like other fields", async () => {
    const properties = {
      spec: { type: "object" },
      status: { type: "object", properties: { phase: { type: "string" } } },
    };
    const schema = { openAPIV3Schema: { type: "object", properties } };
    const versions = [{ name: "v1", served: true, storage: true, schema }];
    await server.put(DEFINITIONS, widgetDefinition({ versions }));
    const body = { ...widget, spec: {}, status: { phase: "Made" } };
    const made = await server.send("POST", WIDGETS, { body });
    expect(made.body).toMatchObject({ metadata: { generation: 1 }, status: { phase: "Made" } });
    const changed = await server.send("PATCH", `${WIDGETS}/w`, {
      body: { status: { phase: "New" } },
    });
    expect(changed.body).toMatchObject({ metadata: { generation: 2 }, status: { phase: "New" } });
  });
});
