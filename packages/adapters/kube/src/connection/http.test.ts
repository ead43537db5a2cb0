// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createKubeClient } from "../client.ts";
import { clock, json, pod, startScriptedServer } from "../testing/scripted-server.ts";
import { classifyRequest, type HttpMethod, parseWarnings } from "./http.ts";

const cases: readonly {
  name: string;
  header: string | readonly string[] | undefined;
  want: string[];
}[] = [
  { name: "no header", header: undefined, want: [] },
  { name: "one", header: '299 - "unknown field \\"spec.x\\""', want: ['unknown field "spec.x"'] },
  { name: "two warnings in one header", header: '299 - "a, b", 299 kube "c"', want: ["a, b", "c"] },
  { name: "two headers", header: ['299 - "a"', '299 - "b"'], want: ["a", "b"] },
  { name: "a different code or a missing text", header: ['199 - "a"', "299 - a"], want: [] },
];
test.each(cases)("parses warnings of $name", ({ header, want }) => {
  expect(parseWarnings(header)).toEqual(want);
});

test("logs warnings of the server once an hour", async () => {
  await using server = await startScriptedServer((response, request) => {
    response.setHeader("warning", ['299 - "unknown field \\"spec.x\\""', '299 - "old"']);
    json(200, { metadata: { name: "p" } })(response, request);
  });
  const logger = createFakeLogger();
  const clock = createFakeClock();
  const client = createKubeClient(server.config, { logger, clock });
  const find = (): Promise<unknown> => client.store.find(PODS, { namespace: "ns", name: "p" });
  for (let i = 0; i < 5; i += 1) await find();
  const listReasons = (): readonly unknown[] => logger.lines.map(({ fields }) => fields["reason"]);
  expect(listReasons()).toEqual(['unknown field "spec.x"', "old"]);
  expect(logger.lines[0]).toMatchObject({
    level: "warn",
    fields: { method: "GET", path: "/api/v1/namespaces/ns/pods/p" },
  });
  await clock.advance(3_600_000);
  await find();
  expect(listReasons()).toHaveLength(4);
  await client.close();
});

test("warnings about a dry run are not logged, because it creates nothing", async () => {
  await using server = await startScriptedServer((response, request) => {
    response.setHeader("warning", '299 - "spec.volumes[2].image is dropped"');
    json(201, { metadata: { name: "p" } })(response, request);
  });
  const logger = createFakeLogger();
  const client = createKubeClient(server.config, { logger, clock: createFakeClock() });
  await client.store.create(PODS, pod, { dryRun: true });
  expect(logger.lines).toEqual([]);
  await client.store.create(PODS, pod);
  expect(logger.lines).toHaveLength(1);
  await client.close();
});

interface Row {
  readonly method: HttpMethod;
  readonly path: string;
  readonly watch?: boolean;
  readonly want: string;
}

const rows: readonly Row[] = [
  { method: "GET", path: "/api/v1/pods", want: "list pods" },
  { method: "GET", path: "/api/v1/pods", watch: true, want: "watch pods" },
  { method: "GET", path: "/api/v1/namespaces/a/pods", want: "list pods" },
  { method: "GET", path: "/api/v1/namespaces/a/pods/b", want: "get pods" },
  { method: "PATCH", path: "/api/v1/namespaces/a/pods/b/status", want: "patch pods/status" },
  { method: "GET", path: "/api/v1/namespaces", want: "list namespaces" },
  { method: "DELETE", path: "/api/v1/namespaces/a", want: "delete namespaces" },
  { method: "PUT", path: "/api/v1/namespaces/a/finalize", want: "update namespaces/finalize" },
  { method: "PUT", path: "/api/v1/namespaces/a/status", want: "update namespaces/status" },
  { method: "GET", path: "/apis/kubevirt.io/v1/kubevirts", want: "list kubevirts" },
  { method: "POST", path: "/apis/x.io/v1/namespaces/a/things", want: "create things" },
  { method: "GET", path: "/apis/x.io/v1/things/b", want: "get things" },
  { method: "PUT", path: "/apis/x.io/v1/namespaces/a/vms/b/start", want: "update vms/start" },
  { method: "GET", path: "/version", want: "get none" },
];

test.each(rows)("classifies $method $path as $want", ({ method, path, watch, want }) => {
  const query = watch === true ? { watch: "1" } : {};
  const { verb, resource } = classifyRequest({ method, path, query });
  expect(`${verb} ${resource}`).toBe(want);
});

test("a client names its program, and counts each request by its kind", async () => {
  await using server = await startScriptedServer(json(200, { metadata: { name: "p" } }));
  const counted: unknown[] = [];
  const client = createKubeClient(server.config, {
    logger: createFakeLogger(),
    clock,
    component: "virt-api",
    onRequest: (kind) => counted.push(kind),
  });
  await client.store.find(PODS, { namespace: "ns", name: "p" });
  expect(server.requests[0]?.headers["user-agent"]).toBe("virt-api (patchbay)");
  expect(counted).toEqual([{ verb: "get", resource: "pods" }]);
  await client.close();
});

test("encodes a body like Go, so that the tests of a JSON patch match the stored values", async () => {
  await using server = await startScriptedServer(json(200, { metadata: { name: "p" } }));
  const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
  const operations = [{ op: "test", path: "/status/reason", value: "a->b <nil> &\u2028" }] as const;
  await client.store.patch(PODS, { namespace: "ns", name: "p" }, { type: "json", operations });
  expect(server.requests[0]?.body).toBe(
    String.raw`[{"op":"test","path":"/status/reason","value":"a-\u003eb \u003cnil\u003e \u0026\u2028"}]`,
  );
  await client.close();
});

test("a forwarded request returns the response unchanged, with rejections and warnings", async () => {
  await using server = await startScriptedServer((response) => {
    response.writeHead(409, { warning: '299 - "spec.old is not known"' });
    response.end('{"kind":"Status"}');
  });
  const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
  const answer = await client.exchange({
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
