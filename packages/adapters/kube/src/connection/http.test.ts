// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createKubeClient } from "../client.ts";
import { clock, json, startScriptedServer } from "../testing/scripted-server.ts";

test("a client names its program, and each request is counted by its kind", async () => {
  await using server = await startScriptedServer(json(200, { metadata: { name: "p" } }));
  const counted: unknown[] = [];
  const client = createKubeClient(server.config, {
    logger: createFakeLogger(),
    clock,
    component: "virt-api",
    onRequest: (kind) => counted.push(kind),
  });
  await client.store.find(PODS, { namespace: "ns", name: "p" });
  expect(server.seen[0]?.headers["user-agent"]).toBe("virt-api (patchbay)");
  expect(counted).toEqual([{ verb: "get", resource: "pods" }]);
  await client.close();
});

test("a body is written as Go writes it, so that what a JSON patch tests is equal to what is stored", async () => {
  await using server = await startScriptedServer(json(200, { metadata: { name: "p" } }));
  const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
  const operations = [{ op: "test", path: "/status/reason", value: "a->b <nil> &\u2028" }] as const;
  await client.store.patch(PODS, { namespace: "ns", name: "p" }, { type: "json", operations });
  expect(server.seen[0]?.body).toBe(
    String.raw`[{"op":"test","path":"/status/reason","value":"a-\u003eb \u003cnil\u003e \u0026\u2028"}]`,
  );
  await client.close();
});

test("whoever only passes a request on gets the answer as it is: a refusal, and what is warned of", async () => {
  await using server = await startScriptedServer((response) => {
    response.writeHead(409, { warning: '299 - "spec.old is not known"' });
    response.end('{"kind":"Status"}');
  });
  const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
  const answer = await client.ask({
    method: "PUT",
    path: "/x",
    query: { dryRun: "All" },
    body: {},
  });
  expect(answer).toEqual({
    status: 409,
    text: '{"kind":"Status"}',
    warnings: ["spec.old is not known"],
  });
  await client.close();
});
