// SPDX-License-Identifier: Apache-2.0
// Status of aggregated and local APIs.
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import { startBackend } from "../backend.ts";
import {
  API_SERVICES,
  availableOf,
  expose,
  register,
  startExtension,
  untilReason,
} from "./extension-server.ts";
import { forgetWebhooks, rulesFor, startRecorder } from "../webhooks/configuration.ts";
import { type Body, type Harness, startHarness, widgetDefinition } from "../harness.ts";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

const ALL_IN_ONE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

function groupsIn(body: Body) {
  return (body as unknown as { groups: readonly { name: string }[] }).groups.map(
    ({ name }) => name,
  );
}

test("the condition follows Service, port, endpoints and server", async () => {
  const [group, name] = ["steps.test.io", "v1.steps.test.io"];
  await register(api, { name: "steps", group });
  expect(await untilReason(api, name, "ServiceNotFound")).toMatchObject({
    status: "False",
    message: 'service/steps in "default" is not present',
  });
  const services = "/api/v1/namespaces/default/services";
  const ports = (port: number) => ({ spec: { ports: [{ port, targetPort: 8443 }] } });
  await api.post(services, { metadata: { name: "steps" }, ...ports(80) });
  expect((await untilReason(api, name, "ServicePortError")).message).toBe(
    'service/steps in "default" is not listening on port 443',
  );
  await api.patch(`${services}/steps`, ports(443));
  expect((await untilReason(api, name, "EndpointsNotFound")).message).toBe(
    'cannot find endpoints for service/steps in "default"',
  );
  const endpoints = "/api/v1/namespaces/default/endpoints";
  await api.post(endpoints, { metadata: { name: "steps" }, subsets: [] });
  expect((await untilReason(api, name, "MissingEndpoints")).message).toBe(
    'endpoints for service/steps in "default" have no addresses with port name ""',
  );
  let code = 404;
  await using backend = await startBackend(api.authority, "steps.default.svc", (_, response) => {
    response.writeHead(code).end("{}");
  });
  const subsets = [{ addresses: [{ ip: "127.0.0.1" }], ports: [{ port: backend.port }] }];
  await api.patch(`${endpoints}/steps`, { subsets });
  const url = `https://127.0.0.1:${String(backend.port)}/apis/${group}/v1`;
  expect((await untilReason(api, name, "FailedDiscoveryCheck")).message).toBe(
    `failing or missing response from ${url}: bad status from ${url}: 404`,
  );
  const refused = await api.get(`/apis/${group}/v1/things`);
  expect([refused.code, refused.text]).toEqual([503, "service unavailable\n"]);
  code = 200;
  expect(await untilReason(api, name, "Passed")).toMatchObject({
    status: "True",
    message: "all checks passed",
  });
  expect((await api.get(`/apis/${group}/v1/things`)).code).toBe(200);
  await api.delete(`${services}/steps`);
  await untilReason(api, name, "ServiceNotFound");
  expect((await api.get(`/apis/${group}/v1/things`)).code).toBe(503);
});

test("names an unreachable server with the reason", async () => {
  const gone = await startBackend(api.authority, "gone.default.svc", () => undefined);
  await gone[Symbol.asyncDispose]();
  await expose(api, "gone", [gone.port]);
  await register(api, { name: "gone", group: "gone.test.io" });
  expect((await untilReason(api, "v1.gone.test.io", "FailedDiscoveryCheck")).message).toContain(
    "connect: connection refused",
  );
});

test("discovery lists the group, its versions by priority, and the server's resources", async () => {
  await using extension = await startExtension(api, { spec: { groupPriorityMinimum: 19_000 } });
  const { body } = await api.get("/apis");
  expect(groupsIn(body).slice(0, 2)).toEqual(["apiregistration.k8s.io", extension.group]);
  expect((await api.get(`/apis/${extension.group}`)).body).toMatchObject({
    name: extension.group,
    preferredVersion: { version: "v1" },
  });
  expect((await api.get(extension.path)).text).toContain('"things/do"');
  const { body: whole } = await api.get("/apis", ALL_IN_ONE);
  const group = whole.items.find(({ metadata }) => metadata.name === extension.group);
  expect(group).toMatchObject({
    versions: [
      {
        version: "v1",
        freshness: "Current",
        resources: [
          {
            resource: "things",
            scope: "Namespaced",
            responseKind: { group: extension.group, version: "v1", kind: "Thing" },
            subresources: [{ subresource: "do", verbs: ["update"] }],
          },
        ],
      },
    ],
  });
  await api.delete(`${API_SERVICES}/v1.${extension.group}`);
  expect(groupsIn((await api.get("/apis")).body)).not.toContain(extension.group);
  expect((await api.get(extension.path)).code).toBe(404);
});

test("serves the aggregated server's own OpenAPI document", async () => {
  const key = "apis/documented.test.io/v1";
  await using backend = await startBackend(
    api.authority,
    "doc.default.svc",
    (request, response) => {
      response.setHeader("content-type", "application/json");
      response.end(
        request.url === "/openapi/v3"
          ? JSON.stringify({ paths: { [key]: { serverRelativeURL: `/openapi/v3/${key}?hash=1` } } })
          : JSON.stringify({ url: request.url }),
      );
    },
  );
  await expose(api, "doc", [backend.port]);
  await register(api, { name: "doc", group: "documented.test.io" });
  await untilReason(api, "v1.documented.test.io", "Passed");
  expect((await api.get("/openapi/v3")).body).toMatchObject({
    paths: { [key]: { serverRelativeURL: `/openapi/v3/${key}?hash=1` } },
  });
  expect((await api.get(`/openapi/v3/${key}?hash=1`)).body).toEqual({
    url: `/openapi/v3/${key}?hash=1`,
  });
});

test("does not rewrite an unchanged status or query the server again", async () => {
  await using extension = await startExtension(api);
  await using hook = await startRecorder(api, {
    type: "Validating",
    webhook: rulesFor(["apiservices/*"]),
  });
  const path = `/api/v1/namespaces/default/services/${extension.name}`;
  const before = extension.probes();
  await api.patch(path, { metadata: { labels: { touched: "yes" } } });
  await eventually(() => extension.probes() > before, { withinMs: 5000 });
  await api.patch(path, { spec: { ports: [{ port: 444 }] } });
  await untilReason(api, `v1.${extension.group}`, "ServicePortError");
  expect(hook.seen.map(({ subResource, object }) => [subResource, object.metadata.name])).toEqual([
    ["status", `v1.${extension.group}`],
  ]);
  await forgetWebhooks(api);
});

test("every group version of the server has a local APIService", async () => {
  const names = (await api.get(API_SERVICES)).body.items.map(({ metadata }) => metadata.name);
  expect(names).toContain("v1.");
  expect(names).toContain("v1.rbac.authorization.k8s.io");
  expect(names).not.toContain("v1.apiregistration.k8s.io");
  expect((await api.get(`${API_SERVICES}/v1.`)).body).toMatchObject({
    metadata: { labels: { "kube-aggregator.kubernetes.io/automanaged": "onstart" } },
    spec: { version: "v1", groupPriorityMinimum: 18_000, versionPriority: 1 },
  });
  expect(await availableOf(api, "v1.")).toMatchObject({ status: "True", reason: "Local" });
});

test("the APIService of a definition is created, reconciled and deleted with it", async () => {
  const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  await api.post(definitions, widgetDefinition("local.test.io"));
  const path = `${API_SERVICES}/v1.local.test.io`;
  const code = async () => (await api.get(path)).code;
  await eventually(async () => (await code()) === 200, { withinMs: 5000 });
  expect((await api.get(path)).body).toMatchObject({
    metadata: { labels: { "kube-aggregator.kubernetes.io/automanaged": "true" } },
    spec: { group: "local.test.io", groupPriorityMinimum: 1000, versionPriority: 100 },
  });
  await api.delete(path);
  await eventually(async () => (await code()) === 200, { withinMs: 5000 });
  await api.delete(`${definitions}/widgets.local.test.io`);
  await eventually(async () => (await code()) === 404, { withinMs: 5000 });
});

test("publishes the client CA for aggregated servers", async () => {
  const path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
  expect((await api.get(path)).body.data).toMatchObject({
    "client-ca-file": api.authority.certPem,
    "requestheader-client-ca-file": api.authority.certPem,
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
  });
});

const SERVICE = { namespace: "default", name: "s" };

test.each([
  { name: "a name that does not match", metadata: "other", spec: {}, want: ["metadata.name"] },
  {
    name: "no group priority",
    spec: { groupPriorityMinimum: 0 },
    want: ["spec.groupPriorityMinimum"],
  },
  {
    name: "a group priority too high",
    spec: { groupPriorityMinimum: 20_001 },
    want: ["spec.groupPriorityMinimum"],
  },
  {
    name: "a version priority too high",
    spec: { versionPriority: 1001 },
    want: ["spec.versionPriority"],
  },
  { name: "no Service name", spec: { service: { namespace: "n" } }, want: ["spec.service.name"] },
  {
    name: "a port out of range",
    spec: { service: { ...SERVICE, port: 0 } },
    want: ["spec.service.port"],
  },
  {
    name: "a CA although verification is skipped",
    spec: { insecureSkipTLSVerify: true },
    want: ["spec.insecureSkipTLSVerify"],
  },
  {
    name: "a CA although it is local",
    spec: { service: undefined },
    want: ["spec.caBundle"],
  },
])("rejects an APIService with $name", async ({ metadata, spec, want }) => {
  const input = {
    metadata: { name: metadata ?? "v1.refused.test.io" },
    spec: {
      group: "refused.test.io",
      version: "v1",
      service: SERVICE,
      caBundle: "YQ==",
      groupPriorityMinimum: 1000,
      versionPriority: 10,
      ...spec,
    },
  };
  const { code, body } = await api.post(API_SERVICES, input);
  expect([code, body.details.causes.map(({ field }) => field)]).toEqual([422, want]);
});

test("a Service's port defaults to 443", async () => {
  const { body } = await register(api, { name: "s", group: "port.test.io" });
  expect(body.spec["service"]).toEqual({ ...SERVICE, port: 443 });
});
