// SPDX-License-Identifier: Apache-2.0
// Kinds by group, version and resource: built in, and by definitions.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";
import { Registry } from "./registry.ts";

const DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions";

let server: TestServer;

beforeEach(async () => {
  server = await startTestServer();
});

afterEach(async () => {
  await server.close();
});

test("serves definitions that exist at startup, with the revision of their last change", async () => {
  await server.put(DEFINITIONS, widgetDefinition());
  const registry = new Registry(server.deps.store);
  expect(registry.find("test.io", "v2", "widgets")).toMatchObject({
    kind: "Widget",
    custom: { schemaRevision: server.deps.store.revision(), storageApiVersion: "test.io/v1" },
  });
});

test("the names of a definition must differ from the others of its group", async () => {
  await server.put(DEFINITIONS, widgetDefinition());
  const names = { plural: "gadgets", singular: "gadget", kind: "Widget", listKind: "GadgetList" };
  const create = async (group: string) => {
    const definition = widgetDefinition({ group, names });
    const body = { ...definition, metadata: { name: `gadgets.${group}` }, status: {} };
    const { code } = await server.send(
      "POST",
      "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
      { body },
    );
    const stored = server.stored(DEFINITIONS, `gadgets.${group}`, "");
    const { conditions } = stored?.["status"] as { conditions: { type: string; status: string }[] };
    const accepted = conditions.find(({ type }) => type === "NamesAccepted")?.status;
    return [code, accepted];
  };
  expect(await create("test.io")).toEqual([201, "False"]);
  expect(await create("other.io")).toEqual([201, "True"]);
});

describe("a deprecated version", () => {
  test.each([
    { deprecationWarning: undefined, want: "test.io/v1 Widget is deprecated" },
    { deprecationWarning: "use v2", want: "use v2" },
  ])("causes a warning to clients: $want", async ({ deprecationWarning, want }) => {
    const definition = widgetDefinition();
    const { versions } = definition["spec"] as { versions: Record<string, unknown>[] };
    Object.assign(versions[0] ?? {}, { deprecated: true, deprecationWarning });
    await server.put(DEFINITIONS, definition);
    const path = (version: string) => `/apis/test.io/${version}/namespaces/default/widgets`;
    expect((await server.send("GET", path("v1"))).warnings).toEqual([want]);
    expect((await server.send("GET", path("v2"))).warnings).toEqual([]);
  });
});
