// SPDX-License-Identifier: Apache-2.0
// Answers as objects, tables and metadata; whole, and in pieces.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { StoredObject } from "../../storage/store.ts";
import { aConfigMap } from "../../testing/objects.ts";
import { ADMIN, type TestServer, startTestServer } from "../../testing/test-server.ts";
import { CONFIG_MAP } from "../../kinds/config/config-map.ts";
import { openTimeSlice } from "../../testing/time-slice.ts";
import type { Call, Reply } from "../../verbs/call.ts";
import type { Representation } from "./accept.ts";
import { formatJson, renderingCost, streamReply } from "./render.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await server.put("configmaps", aConfigMap({ labels: { a: "b" } }), aConfigMap({ name: "n" }));
});

afterAll(async () => {
  await server.close();
});

async function get(path: string, accept: string): Promise<unknown> {
  return (await server.send("GET", path, { accept })).body;
}

describe("an object", () => {
  test("is shown as metadata", async () => {
    expect(await get(`${MAPS}/m`, PARTIAL)).toEqual({
      kind: "PartialObjectMetadata",
      apiVersion: "meta.k8s.io/v1",
      metadata: expect.objectContaining({ name: "m", labels: { a: "b" } }) as unknown,
    });
  });

  test.each([
    { query: "", object: { kind: "PartialObjectMetadata" } },
    { query: "?includeObject=Metadata", object: { kind: "PartialObjectMetadata" } },
    { query: "?includeObject=Object", object: { kind: "ConfigMap", data: { k: "1" } } },
  ])("is shown as a table of one row, with its $object.kind", async ({ query, object }) => {
    const table = await get(`${MAPS}/m${query}`, TABLE);
    expect(table).toMatchObject({
      kind: "Table",
      metadata: { resourceVersion: server.stored("configmaps", "m")?.metadata.resourceVersion },
      columnDefinitions: [{ name: "Name" }, { name: "Data" }, { name: "Age" }],
      rows: [{ cells: ["m", 1, expect.any(String) as string], object }],
    });
  });

  test("is omitted from its row at the client's request", async () => {
    const table = await get(`${MAPS}/m?includeObject=None`, TABLE);
    expect(table).toMatchObject({ rows: [{ cells: ["m", 1, "<unknown>"] }] });
    expect(table).not.toHaveProperty("rows.0.object");
  });

  test("is also shown as a table right after its creation", async () => {
    const body = { metadata: { name: "new" } };
    const answer = await server.send("POST", `${MAPS}?dryRun=All`, { body, accept: TABLE });
    expect(answer.body).toMatchObject({
      kind: "Table",
      rows: [{ object: { metadata: body.metadata } }],
    });
  });
});

describe("a list", () => {
  const metadata = (): object => ({ resourceVersion: String(server.deps.store.revision()) });

  test("is shown as metadata", async () => {
    expect(await get(MAPS, PARTIAL)).toMatchObject({
      kind: "PartialObjectMetadataList",
      apiVersion: "meta.k8s.io/v1",
      metadata: metadata(),
      items: [
        { kind: "PartialObjectMetadata", metadata: { name: "m" } },
        { kind: "PartialObjectMetadata", metadata: { name: "n" } },
      ],
    });
  });

  test("is shown as a table", async () => {
    expect(await get(MAPS, TABLE)).toMatchObject({
      kind: "Table",
      apiVersion: "meta.k8s.io/v1",
      metadata: metadata(),
      columnDefinitions: [{ name: "Name" }, { name: "Data" }, { name: "Age" }],
      rows: [{ cells: ["m", 1, expect.any(String)] }, { cells: ["n", 1, expect.any(String)] }],
    });
  });

  test("of one page contains the token of the next page", async () => {
    expect(await get(`${MAPS}?limit=1`, TABLE)).toMatchObject({
      metadata: { ...metadata(), continue: expect.any(String) as string, remainingItemCount: 1 },
      rows: [{ cells: ["m", 1, expect.any(String)] }],
    });
  });
});

const AS_JSON: Representation = { format: "json", as: "object", isPretty: false };

function callFor(representation: Representation): Call {
  return {
    kind: CONFIG_MAP,
    namespace: "default",
    name: "",
    subresource: "",
    query: new URLSearchParams(),
    body: { text: "body", contentType: "" },
    user: ADMIN,
    representation,
    warnings: [],
    closed: new AbortController().signal,
  };
}

/** Two objects with texts of so many characters each. */
async function twoOf(length: number): Promise<readonly StoredObject[]> {
  const empty = JSON.stringify(
    aConfigMap({ name: "l0", namespace: "other", resourceVersion: "10" }, { k: "" }),
  ).length;
  const data = { k: "x".repeat(length - empty) };
  await server.put(
    "configmaps",
    ...["l0", "l1"].map((name) => aConfigMap({ name, namespace: "other" }, data)),
  );
  return server.deps.store.list({ bucket: "/configmaps", namespace: "other" });
}

describe("a list in chunks", () => {
  async function pieces(representation: Representation, items: readonly StoredObject[]) {
    const timeSlice = openTimeSlice(ADMIN, { clock: server.clock });
    const reply: Reply = { type: "list", items, revision: 9 };
    const made = streamReply(callFor(representation), reply, { nowMs: 0, timeSlice });
    if (made === undefined) return undefined;
    const texts: string[] = [];
    for await (const piece of made.pieces) {
      texts.push(piece);
      // Each piece takes long, so that others are served behind it.
      await server.clock.advance(10);
    }
    return { contentType: made.contentType, count: texts.length, text: texts.join("") };
  }

  test("has the same parts as a whole list", async () => {
    const items = await twoOf(40_000);
    const made = await pieces(AS_JSON, items);
    expect([made?.contentType, made?.count]).toEqual(["application/json", 4]);
    expect(JSON.parse(made?.text ?? "")).toEqual({
      kind: "ConfigMapList",
      apiVersion: "v1",
      metadata: { resourceVersion: "9" },
      items: items.map((item) => item.view()),
    });
  });

  test("is JSON also for YAML clients, in the requested representation", async () => {
    const items = await twoOf(40_000);
    const made = await pieces(
      { format: "yaml", as: "PartialObjectMetadata", isPretty: true },
      items,
    );
    expect(made?.contentType).toBe("application/yaml");
    expect(JSON.parse(made?.text ?? "")).toMatchObject({
      kind: "PartialObjectMetadataList",
      items: [{ metadata: { name: "l0" } }, { metadata: { name: "l1" } }],
    });
    const table = await pieces({ ...AS_JSON, as: "Table" }, items);
    expect(JSON.parse(table?.text ?? "")).toMatchObject({
      kind: "Table",
      rows: [{ cells: ["l0", 1, "<unknown>"] }, { cells: ["l1", 1, "<unknown>"] }],
    });
  });

  test("is chunked only beyond a length", async () => {
    const items = await twoOf(32 * 1024);
    const lengths = items.map(({ text }) => text.length);
    expect(lengths).toEqual([32 * 1024, 32 * 1024]);
    expect(await pieces(AS_JSON, items)).toBeUndefined();
    expect(await pieces(AS_JSON, await twoOf(32 * 1024 + 1))).toBeDefined();
  });
});

test("the rendering cost is the length of the stored text, or of the request body", async () => {
  const [item] = await twoOf(1000);
  if (item === undefined) throw new Error("nothing is stored");
  const call = callFor(AS_JSON);
  expect(renderingCost(call, { type: "object", code: 200, object: item })).toBe(1000);
  expect(renderingCost(call, { type: "object", code: 200, object: item.copy() })).toBe(4);
  expect(renderingCost(call, { type: "fields", code: 200, fields: {} })).toBe(4);
});

test.each([
  { name: "plain", text: '{"a":1}', pretty: false, want: '{"a":1}\n' },
  { name: "indented for pretty=true", text: '{"a":1}', pretty: true, want: '{\n  "a": 1\n}\n' },
])("JSON is printed $name", ({ text, pretty, want }) => {
  expect(formatJson(text, { ...AS_JSON, isPretty: pretty })).toEqual({
    contentType: "application/json",
    text: want,
  });
});

test.each([
  { length: 256 * 1024, isPretty: true },
  { length: 256 * 1024 + 1, isPretty: false },
])("pretty-prints a text of $length characters: $isPretty", ({ length, isPretty }) => {
  const text = `["${"x".repeat(length - 4)}"]`;
  expect(formatJson(text, { ...AS_JSON, isPretty: true }).text.startsWith("[\n")).toBe(isPretty);
});

test("prints YAML", () => {
  expect(formatJson('{"a":[1]}', { ...AS_JSON, format: "yaml" })).toEqual({
    contentType: "application/yaml",
    text: "a:\n  - 1\n",
  });
});
