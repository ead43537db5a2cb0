// SPDX-License-Identifier: Apache-2.0
// Unknown fields, duplicate fields, and fields of a wrong type.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness, widgetDefinition } from "../harness.ts";

const PODS = "/api/v1/namespaces/default/pods";
const MAPS = "/api/v1/namespaces/default/configmaps";
const WIDGETS = "/apis/fields.test/v1/namespaces/default/widgets";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
  await api.post(
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    widgetDefinition("fields.test"),
  );
});

afterAll(async () => {
  await api.close();
});

function pod(name: string, spec: Readonly<Record<string, unknown>> = {}) {
  const containers = [
    { name: "c", image: "i:1", livenesProbe: {}, env: [{ nam: "x", name: "y" }] },
  ];
  return { metadata: { name, lables: {} }, spec: { containers, hostNetwrok: true, ...spec } };
}

const UNKNOWN = [
  'unknown field "metadata.lables"',
  'unknown field "spec.containers[0].livenesProbe"',
  'unknown field "spec.containers[0].env[0].nam"',
  'unknown field "spec.hostNetwrok"',
];

test("Strict names all unknown fields of a built-in kind and rejects", async () => {
  const { code, body } = await api.post(`${PODS}?fieldValidation=Strict`, pod("strict"));
  expect([code, body.message]).toEqual([
    400,
    `Pod in version "v1" cannot be handled as a Pod: strict decoding error: ${UNKNOWN.join(", ")}`,
  ]);
});

test.each(["", "?fieldValidation=Warn"])(
  "by default (%s) drops unknown fields with a warning each",
  async (query) => {
    const { code, body, headers } = await api.post(
      `${PODS}${query}`,
      pod(`warned${String(query.length)}`),
    );
    expect(code).toBe(201);
    for (const text of UNKNOWN) {
      expect(String(headers["warning"])).toContain(`299 - "${text.replaceAll('"', '\\"')}"`);
    }
    expect(JSON.stringify(body)).not.toMatch(/livenesProbe|hostNetwrok|lables|"nam"/);
  },
);

test("Ignore drops unknown fields without a warning", async () => {
  const { code, body, headers } = await api.post(`${PODS}?fieldValidation=Ignore`, pod("ignored"));
  expect([code, headers["warning"]]).toEqual([201, undefined]);
  expect(body.spec["hostNetwrok"]).toBeUndefined();
});

test("rejects another mode", async () => {
  const { code, body } = await api.post(`${PODS}?fieldValidation=Loud`, pod("loud"));
  expect([code, body.details.causes.map(({ field }) => field)]).toEqual([422, ["fieldValidation"]]);
});

test.each([
  {
    path: MAPS,
    kind: "ConfigMap",
    text: '{"metadata":{"name":"twice","name":"twice"},"data":{"a":"1","a":"2"}}',
    want: 'duplicate field "metadata.name", duplicate field "data.a"',
  },
  {
    path: WIDGETS,
    kind: "Widget",
    text: '{"apiVersion":"fields.test/v1","kind":"Widget","metadata":{"name":"twice"},"spec":{"size":"s","size":"m","sise":"s"}}',
    want: 'duplicate field "spec.size", unknown field "spec.sise"',
  },
])("finds duplicate fields of a $kind", async ({ path, kind, text, want }) => {
  const strict = await api.ask("POST", `${path}?fieldValidation=Strict`, { body: text });
  expect([strict.code, strict.body.message]).toEqual([
    400,
    `${kind} in version "v1" cannot be handled as a ${kind}: strict decoding error: ${want}`,
  ]);
  const warned = await api.ask("POST", path, { body: text });
  expect([warned.code, String(warned.headers["warning"])]).toEqual([
    201,
    expect.stringContaining("duplicate field"),
  ]);
});

test("PUT and PATCH validate fields too", async () => {
  const { body } = await api.post(MAPS, { metadata: { name: "looked" } });
  const strict = "looked?fieldValidation=Strict";
  expect((await api.put(`${MAPS}/${strict}`, { ...body, dta: {} })).body.message).toContain(
    'unknown field "dta"',
  );
  const patched = await api.patch(`${MAPS}/${strict}`, { dta: {} });
  expect([patched.code, patched.body.message]).toEqual([
    422,
    expect.stringContaining('strict decoding error: unknown field "dta"'),
  ]);
  const text = '{"data":{"a":"1","a":"2"}}';
  expect((await api.patch(`${MAPS}/${strict}`, text)).body.message).toContain(
    'duplicate field "data.a"',
  );
});

test.each([
  {
    body: { metadata: { name: "x" }, spec: { containers: "c" } },
    want: "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
  },
  {
    body: { metadata: { name: "x", labels: { a: 1 } } },
    want: "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
  },
  {
    body: { metadata: { name: "x" }, spec: { overhead: { cpu: "x" } } },
    want: "quantities must match the regular expression",
  },
])("a wrong type is 400: $want", async ({ body, want }) => {
  const answer = await api.post(PODS, body);
  expect([answer.code, answer.body.reason]).toEqual([400, "BadRequest"]);
  expect(answer.body.message).toContain(`Pod in version "v1" cannot be handled as a Pod: ${want}`);
});

test("field names are exact, null means unset, quantities have one form", async () => {
  const spec = {
    Containers: [],
    nodeName: null,
    containers: [{ name: "c", image: "i", resources: { limits: { memory: "1024Mi", cpu: 2 } } }],
  };
  const { code, body } = await api.post(PODS, { metadata: { name: "exact" }, spec });
  expect([code, body.spec["containers"]]).toEqual([
    201,
    [
      expect.objectContaining({
        resources: { limits: { memory: "1Gi", cpu: "2" }, requests: { memory: "1Gi", cpu: "2" } },
      }),
    ],
  ]);
  expect(body.spec).not.toHaveProperty("nodeName");
  expect(body.spec).not.toHaveProperty("Containers");
});

test("rejects a body of another kind", async () => {
  const service = { apiVersion: "v1", kind: "Service", metadata: { name: "x" } };
  expect((await api.post(PODS, service)).body.message).toContain(
    'Service in version "v1" cannot be handled as a Pod',
  );
  const gadget = { apiVersion: "fields.test/v1", kind: "Gadget", metadata: { name: "x" } };
  const { code, body } = await api.post(WIDGETS, gadget);
  expect([code, body.details.causes.map(({ field }) => field)]).toEqual([422, ["kind"]]);
});
