// SPDX-License-Identifier: Apache-2.0
// Custom resource definitions: rejections, warnings and names.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness, widgetDefinition } from "../harness.ts";

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

type Definition = ReturnType<typeof widgetDefinition>;

/** A definition in its own group, with changes. */
function changed(group: string, change: (definition: Definition) => unknown): Definition {
  const definition = widgetDefinition(group);
  change(definition);
  return definition;
}

function withSchema(group: string, spec: unknown): Definition {
  return widgetDefinition(group, { type: "object", properties: { spec } });
}

async function causesOf(definition: unknown): Promise<readonly string[]> {
  const { code, body } = await api.post(DEFINITIONS, definition);
  expect(code).toBe(422);
  return body.details.causes.map(({ field }) =>
    field.replace("spec.versions[0].schema.openAPIV3Schema", "~"),
  );
}

test("warns about CEL rules that have no effect and names their location", async () => {
  const rules = [{ rule: "self.size > 0" }];
  const list = { type: "array", items: { type: "object", "x-kubernetes-validations": rules } };
  const spec = { type: "object", properties: { list }, "x-kubernetes-validations": rules };
  const { code, headers } = await api.post(DEFINITIONS, withSchema("cel.test", spec));
  expect([code, headers["warning"]]).toEqual([
    201,
    expect.stringMatching(
      /does not evaluate x-kubernetes-validations.*\.spec, \.spec\.list\[\*\]"/,
    ),
  ]);
  expect((await api.get(`${DEFINITIONS}/widgets.cel.test`)).text).toContain("self.size > 0");
});

test("rejects a conversion webhook where conversion would be needed", async () => {
  const conversion = { strategy: "Webhook", webhook: { conversionReviewVersions: ["v1"] } };
  const hooked = (group: string) =>
    changed(group, ({ spec }) => Object.assign(spec, { conversion }));
  const one = await api.post(DEFINITIONS, hooked("hook.test"));
  expect([one.code, one.headers["warning"]]).toEqual([
    201,
    expect.stringContaining("does not call conversion webhooks"),
  ]);
  const several = hooked("hooks.test");
  several.spec.versions.push({ ...several.spec.versions[0], name: "v2", storage: false } as never);
  expect(await causesOf(several)).toEqual(["spec.conversion.strategy"]);
});

test.each([
  { name: "ref", spec: { type: "object", $ref: "#/x" }, want: ["~.properties[spec].$ref"] },
  {
    name: "unique",
    spec: { type: "array", uniqueItems: true, items: { type: "string" } },
    want: ["~.properties[spec].uniqueItems"],
  },
  {
    name: "preserve",
    spec: { type: "object", "x-kubernetes-preserve-unknown-fields": false },
    want: ["~.properties[spec].x-kubernetes-preserve-unknown-fields"],
  },
  {
    name: "listtype",
    spec: { type: "array", items: { type: "object" }, "x-kubernetes-list-type": "map" },
    want: ["~.properties[spec].x-kubernetes-list-map-keys"],
  },
  {
    name: "bag",
    spec: { type: "array", items: { type: "object" }, "x-kubernetes-list-type": "bag" },
    want: ["~.properties[spec].x-kubernetes-list-type"],
  },
])("rejects a schema with $name", async ({ name, spec, want }) => {
  expect(await causesOf(withSchema(`${name}.test`, spec))).toEqual(want);
});

test("validates versions, columns and scale", async () => {
  const wrong = changed("wrong.test", ({ spec }) => {
    Object.assign(spec.versions[0] ?? {}, {
      name: "V1",
      additionalPrinterColumns: [{ name: "A", type: "text", jsonPath: ".a" }, { type: "string" }],
      subresources: { scale: { specReplicasPath: ".status.n" } },
    });
  });
  expect(await causesOf(wrong)).toEqual([
    "spec.versions[0].name",
    "spec.versions[0].additionalPrinterColumns[0].type",
    "spec.versions[0].additionalPrinterColumns[1].name",
    "spec.versions[0].additionalPrinterColumns[1].jsonPath",
    "spec.versions[0].subresources.scale.specReplicasPath",
    "spec.versions[0].subresources.scale.statusReplicasPath",
  ]);
});

test("rejects the removal of a version in which objects are stored", async () => {
  const { body } = await api.post(DEFINITIONS, widgetDefinition("stored.test"));
  const path = `${DEFINITIONS}/widgets.stored.test`;
  const versions = body.spec["versions"] as readonly object[];
  const moved = {
    ...body,
    spec: { ...body.spec, versions: versions.map((version) => ({ ...version, name: "v2" })) },
  };
  const refused = await api.put(path, moved);
  expect([refused.code, refused.body.message]).toEqual([
    422,
    expect.stringContaining(
      'status.storedVersions[0]: Invalid value: "v1": must appear in spec.versions',
    ),
  ]);
});

test("accepts short names once per group, and again when they are free", async () => {
  const named = (plural: string, kind: string, shortNames: readonly string[]) => {
    const definition = widgetDefinition("short.test");
    Object.assign(definition.metadata, { name: `${plural}.short.test` });
    Object.assign(definition.spec, { names: { plural, kind, shortNames } });
    return definition;
  };
  await api.post(DEFINITIONS, named("firsts", "First", ["x"]));
  const second = await api.post(DEFINITIONS, named("seconds", "Second", ["x"]));
  expect(JSON.stringify(second.body.status)).toContain("ShortNamesConflict");
  expect((await api.ask("GET", "/apis/short.test/v1/seconds")).code).toBe(404);
  const path = `${DEFINITIONS}/seconds.short.test`;
  const renamed = await api.patch(path, { spec: { names: { shortNames: ["y"] } } });
  expect(JSON.stringify(renamed.body.status)).toContain('"NoConflicts"');
  expect((await api.ask("GET", "/apis/short.test/v1/seconds")).code).toBe(200);
  await api.post(DEFINITIONS, named("thirds", "Third", ["x"]));
  expect((await api.ask("GET", "/apis/short.test/v1/thirds")).code).toBe(404);
  await api.delete(`${DEFINITIONS}/firsts.short.test`);
  await expect
    .poll(async () => (await api.ask("GET", "/apis/short.test/v1/thirds")).code)
    .toBe(200);
});

test("does not describe deleted definitions", async () => {
  await api.post(DEFINITIONS, widgetDefinition("brief.test"));
  expect((await api.get("/openapi/v2")).text).toContain("test.brief.v1.Widget");
  await api.delete(`${DEFINITIONS}/widgets.brief.test`);
  await expect
    .poll(async () => (await api.get("/openapi/v2")).text)
    .not.toContain("test.brief.v1.Widget");
  expect((await api.get("/openapi/v3")).text).not.toContain("brief.test");
});
