// SPDX-License-Identifier: Apache-2.0
// Lifetime of watches: slow clients, bookmarks, and every way to end.
import type { IncomingMessage } from "node:http";
import type { Agent } from "node:https";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeAgent, readText, send } from "../client.ts";
import { type Harness, type WatchEvent, startHarness, widgetDefinition } from "../harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

let api: Harness;
let agent: Agent;

beforeEach(async () => {
  const tokens = [{ token: "admin-token", user: "admin", groups: ["system:masters"] }];
  api = await startHarness({ tokens });
  agent = makeAgent({ ca: api.authority.certPem });
});

afterEach(async () => {
  agent.destroy();
  await api.close();
});

/** A streamed response. */
function open(path: string, accept = "application/json"): Promise<IncomingMessage> {
  const headers = { authorization: "Bearer admin-token", accept };
  return send(agent, `${api.server.url}${path}`, { headers });
}

async function revision(): Promise<string> {
  const { body } = await api.get(MAPS);
  return body.metadata.resourceVersion;
}

function lines(text: string): WatchEvent[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as WatchEvent);
}

test("a client that does not read blocks no other and misses nothing when it resumes", async () => {
  const from = await revision();
  const answer = await open(`${MAPS}?watch=1&resourceVersion=${from}`);
  answer.pause();
  await using quick = await api.watch(`${MAPS}?watch=1&resourceVersion=${from}`);
  // More than the connection and the server buffer for one client.
  const value = "x".repeat(500_000);
  const count = 30;
  for (let index = 0; index < count; index += 1) {
    await api.post(MAPS, { metadata: { name: `m-${String(index)}` }, data: { value } });
  }
  expect(await quick.first(count)).toHaveLength(count);
  let text = "";
  answer.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  answer.resume();
  await eventually(() => text.split("\n").length > count, { withinMs: 10_000 });
  answer.destroy();
  const names = lines(text).map(({ object }) => object.metadata.name);
  expect(names).toEqual(Array.from({ length: count }, (_, index) => `m-${String(index)}`));
});

test.each([
  { accept: "application/json", kind: "ConfigMap" },
  { accept: PARTIAL, kind: "PartialObjectMetadata" },
])("a watch ends at its timeout with a bookmark: $kind", async ({ accept, kind }) => {
  const from = await revision();
  await api.post("/api/v1/namespaces/default/secrets", { metadata: { name: "elsewhere" } });
  const path = `${MAPS}?watch=1&resourceVersion=${from}&timeoutSeconds=1&allowWatchBookmarks=true`;
  const [bookmark, ...others] = lines(await readText(await open(path, accept)));
  expect(others).toEqual([]);
  expect([bookmark?.type, bookmark?.object.kind]).toEqual(["BOOKMARK", kind]);
  expect(Number(bookmark?.object.metadata.resourceVersion)).toBeGreaterThan(Number(from));
});

test("watches end cleanly when the server stops", async () => {
  const answer = await open(`${MAPS}?watch=1`);
  await api.server.close();
  // Throws if the connection is cut instead.
  const text = await readText(answer);
  expect(text.endsWith("}\n")).toBe(true);
  api = await startHarness();
});

test("a watch ends when its kind is deleted", async () => {
  await api.post(DEFINITIONS, widgetDefinition("life.example.com"));
  const path = "/apis/life.example.com/v1/namespaces/default/widgets";
  await eventually(async () => (await api.ask("GET", path)).code === 200, { withinMs: 5000 });
  await using watch = await api.watch(`${path}?watch=1`);
  await api.delete(`${DEFINITIONS}/widgets.life.example.com`);
  await eventually(() => watch.ended, { withinMs: 5000 });
});
