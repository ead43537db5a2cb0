// SPDX-License-Identifier: Apache-2.0
// Discovery and OpenAPI documents: content, caching, and changes.
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeAgent, send } from "../client.ts";
import { type Harness, startHarness, widgetDefinition } from "../harness.ts";

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
  await api.post(DEFINITIONS, widgetDefinition("openapi.test"));
});

afterAll(async () => {
  await api.close();
});

type Schema = Readonly<Record<string, unknown>> & {
  readonly properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
};

async function definitions(): Promise<Readonly<Record<string, Schema>>> {
  const { text } = await api.get("/openapi/v2");
  return (JSON.parse(text) as { definitions: Record<string, Schema> }).definitions;
}

/** URLs of the documents by group version. */
async function addresses(): Promise<Readonly<Record<string, string>>> {
  const { text } = await api.get("/openapi/v3");
  const { paths } = JSON.parse(text) as { paths: Record<string, { serverRelativeURL: string }> };
  return Object.fromEntries(
    Object.entries(paths).map(([path, { serverRelativeURL }]) => [path, serverRelativeURL]),
  );
}

async function raw(path: string, headers: Readonly<Record<string, string>>) {
  const agent = makeAgent({ ca: api.authority.certPem });
  const answer = await send(agent, `${api.server.url}${path}`, {
    headers: { authorization: "Bearer jane-token", ...headers },
  });
  const chunks: Buffer[] = [];
  for await (const chunk of answer) {
    chunks.push(chunk as Buffer);
  }
  agent.destroy();
  return { code: answer.statusCode, headers: answer.headers, content: Buffer.concat(chunks) };
}

test("describes built-in kinds in full, and every reference resolves", async () => {
  const all = await definitions();
  expect(all["io.k8s.api.core.v1.Container"]?.properties["livenessProbe"]).toMatchObject({
    $ref: "#/definitions/io.k8s.api.core.v1.Probe",
  });
  expect(all["io.k8s.api.core.v1.PodSpec"]?.properties["containers"]).toMatchObject({
    "x-kubernetes-patch-merge-key": "name",
    "x-kubernetes-patch-strategy": "merge",
  });
  expect(all["io.k8s.api.apps.v1.Deployment"]?.["x-kubernetes-group-version-kind"]).toEqual([
    { group: "apps", version: "v1", kind: "Deployment" },
  ]);
  const text = JSON.stringify(all);
  const wanted = [...text.matchAll(/#\/definitions\/([^"]+)/g)].map(([, name = ""]) => name);
  expect(wanted.length).toBeGreaterThan(500);
  expect(wanted.filter((name) => all[name] === undefined)).toEqual([]);
});

test("references of every v3 document resolve within it", async () => {
  for (const address of Object.values(await addresses())) {
    const { text } = await api.get(address);
    const { components } = JSON.parse(text) as { components: { schemas: object } };
    const wanted = [...text.matchAll(/#\/components\/schemas\/([^"]+)/g)];
    const missing = wanted.filter(([, name = ""]) => !Object.hasOwn(components.schemas, name));
    expect([address, missing]).toEqual([address, []]);
  }
});

test("sends a document once, compressed on request", async () => {
  const path = "/openapi/v2";
  const first = await raw(path, { "accept-encoding": "gzip" });
  expect(first.headers["content-encoding"]).toBe("gzip");
  expect(gunzipSync(first.content).toString()).toContain('"swagger":"2.0"');
  const tag = String(first.headers.etag);
  const again = await raw(path, { "if-none-match": tag });
  expect([again.code, again.content.length]).toEqual([304, 0]);
  await api.post(DEFINITIONS, widgetDefinition("later.test"));
  expect((await raw(path, { "if-none-match": tag })).code).toBe(200);
  expect((await raw(path, { accept: PROTOBUF })).headers["content-type"]).toContain("protobuf");
});

test("v3 URLs change only with their documents", async () => {
  const before = await addresses();
  const path = before["apis/openapi.test/v1"] ?? "";
  expect((await raw(path, {})).headers["cache-control"]).toContain("immutable");
  const patch = { spec: { names: { categories: ["all"] } } };
  await api.patch(`${DEFINITIONS}/widgets.openapi.test`, patch);
  const schema = { type: "object", properties: { spec: { type: "object", description: "New." } } };
  const { spec } = widgetDefinition("openapi.test", schema);
  await api.patch(`${DEFINITIONS}/widgets.openapi.test`, { spec: { versions: spec.versions } });
  const after = await addresses();
  expect(after["api/v1"]).toBe(before["api/v1"]);
  expect(after["apis/openapi.test/v1"]).not.toBe(path);
  const moved = await raw(path, {});
  expect([moved.code, moved.headers.location]).toEqual([301, after["apis/openapi.test/v1"]]);
});

test("reports health as a whole, per check, and with exclusions", async () => {
  for (const name of ["healthz", "livez", "readyz"]) {
    expect((await api.get(`/${name}`)).text).toBe("ok");
    expect((await api.get(`/${name}/ping`)).text).toBe("ok");
    const verbose = (await api.get(`/${name}?verbose&exclude=log&exclude=nope`)).text;
    expect(verbose).toContain("[+]ping ok\n[+]log excluded: ok\n[+]store ok\n");
    expect(verbose).toContain('no matches for "nope"');
    expect(verbose).toMatch(new RegExp(`${name} check passed\n$`));
  }
});
