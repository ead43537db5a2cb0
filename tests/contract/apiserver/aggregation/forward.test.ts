// SPDX-License-Identifier: Apache-2.0
// Forwarding to aggregated APIs: unchanged requests and responses, with the authenticated user.
import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import { clientNameOf, startBackend } from "../backend.ts";
import { API_SERVICES, expose, register, startExtension, untilReason } from "./extension-server.ts";
import { type Harness, startHarness, widgetDefinition } from "../harness.ts";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

test("the front proxy sends the backend the user's identity and none of the client's headers", async () => {
  await using extension = await startExtension(api);
  const headers = {
    "impersonate-user": "ann",
    "impersonate-group": ["system:masters", "devs"],
    "impersonate-uid": "u-1",
    "impersonate-extra-scopes": ["view", "edit"],
    "impersonate-extra-acme.com%2Fproject": "x",
    "x-remote-user": "root",
    "x-remote-group": "system:masters",
    "x-remote-extra-scopes": "all",
    "x-own": "kept",
  };
  await api.ask("GET", `${extension.path}/things?a=b&c=%20d`, { headers });
  const [request] = extension.seen;
  expect(request?.url).toBe(`${extension.path}/things?a=b&c=%20d`);
  expect(request === undefined ? "" : clientNameOf(request)).toBe("front-proxy-client");
  expect(request?.headersDistinct).toMatchObject({
    "x-remote-user": ["ann"],
    "x-remote-uid": ["u-1"],
    "x-remote-group": ["system:masters", "devs", "system:authenticated"],
    "x-remote-extra-scopes": ["view", "edit"],
    "x-remote-extra-acme.com%2fproject": ["x"],
    "x-own": ["kept"],
  });
  const names = Object.keys(request?.headers ?? {});
  expect(names.filter((name) => /^(authorization|impersonate-)/.test(name))).toEqual([]);
});

test("rejects a user without rights before the backend sees the request", async () => {
  await using extension = await startExtension(api);
  const { code, body } = await api.ask("GET", `${extension.path}/namespaces/default/things/x`, {
    token: "jane-token",
  });
  expect([code, body.message]).toEqual([
    403,
    `things.${extension.group} "x" is forbidden: User "jane" cannot get resource "things" in API group "${extension.group}" in the namespace "default"`,
  ]);
  expect(extension.seen).toEqual([]);
});

test("returns the backend's codes, bodies and headers unchanged", async () => {
  await using extension = await startExtension(api, {
    handle: (_request, response) => {
      response.writeHead(418, { "content-type": "text/x-own", "x-own": "1", trailer: "X-Sum" });
      response.write("short");
      response.addTrailers({ "X-Sum": "7" });
      response.end(" and stout");
    },
  });
  const { code, text, headers } = await api.post(`${extension.path}/things`, {});
  expect([code, text, headers["content-type"], headers["x-own"]]).toEqual([
    418,
    "short and stout",
    "text/x-own",
    "1",
  ]);
});

test("forwards large bodies both ways", async () => {
  await using extension = await startExtension(api, {
    handle: (request, response) => {
      request.pipe(response);
    },
  });
  const body = "0123456789".repeat(400_000);
  const { text } = await api.ask("POST", `${extension.path}/things`, { body, type: "text/plain" });
  expect(text.length).toBe(body.length);
});

test("streams a watch and ends it at the backend when the client disconnects", async () => {
  let ended = false;
  await using extension = await startExtension(api, {
    handle: (request, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.write(`${JSON.stringify({ type: "ADDED", object: { metadata: { name: "a" } } })}\n`);
      request.socket.once("close", () => {
        ended = true;
      });
    },
  });
  const watch = await api.watch(`${extension.path}/things?watch=true`);
  expect((await watch.first(1)).map(({ object }) => object.metadata.name)).toEqual(["a"]);
  await watch[Symbol.asyncDispose]();
  await eventually(() => ended, { withinMs: 5000 });
});

test("skips an address that refuses connections", async () => {
  const gone = await startBackend(api.authority, "two.default.svc", () => undefined);
  await gone[Symbol.asyncDispose]();
  await using there = await startBackend(api.authority, "two.default.svc", (request, response) => {
    response.end(request.method);
  });
  await expose(api, "two", [gone.port, there.port]);
  await register(api, { name: "two", group: "two.test.io" });
  await untilReason(api, "v1.two.test.io", "Passed");
  expect((await api.get("/apis/two.test.io/v1/things")).text).toBe("GET");
});

test("does not connect to a backend whose certificate is of another CA", async () => {
  const other = await startHarness();
  const caBundle = Buffer.from(other.authority.certPem).toString("base64");
  await other.close();
  await using extension = await startExtension(api, { spec: { caBundle } });
  const { code, text } = await api.get(`${extension.path}/things`);
  expect([code, text.trim()]).toEqual([
    503,
    "error trying to reach service: tls: failed to verify certificate: x509: certificate signed by unknown authority",
  ]);
  expect(extension.seen).toEqual([]);
});

test("insecureSkipTLSVerify accepts any certificate", async () => {
  await using extension = await startExtension(api, {
    spec: { caBundle: undefined, insecureSkipTLSVerify: true },
  });
  expect((await api.get(`${extension.path}/things`)).code).toBe(200);
});

test("an ExternalName leads to an external server", async () => {
  await using backend = await startBackend(
    api.authority,
    "outside.default.svc",
    (request, response) => {
      response.end(request.url);
    },
  );
  await api.post("/api/v1/namespaces/default/services", {
    metadata: { name: "outside" },
    spec: { type: "ExternalName", externalName: "localhost" },
  });
  const service = { namespace: "default", name: "outside", port: backend.port };
  await register(api, { name: "outside", group: "outside.test.io", spec: { service } });
  await untilReason(api, "v1.outside.test.io", "Passed");
  expect((await api.get("/apis/outside.test.io/v1/x")).text).toBe("/apis/outside.test.io/v1/x");
});

test("an APIService that names a Service overrides a definition until it is deleted", async () => {
  await api.post(
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    widgetDefinition("shared.test.io"),
  );
  const path = "/apis/shared.test.io/v1/namespaces/default/widgets";
  expect((await api.get(path)).body.kind).toBe("WidgetList");
  const name = `${API_SERVICES}/v1.shared.test.io`;
  await eventually(async () => (await api.get(name)).code === 200, { withinMs: 5000 });
  await using backend = await startBackend(api.authority, "s.default.svc", (_request, response) => {
    response.end("theirs");
  });
  await expose(api, "s", [backend.port]);
  const caBundle = Buffer.from(api.authority.certPem).toString("base64");
  const service = { namespace: "default", name: "s" };
  const labels = { "kube-aggregator.kubernetes.io/automanaged": null };
  await api.patch(name, { metadata: { labels }, spec: { caBundle, service } });
  await untilReason(api, "v1.shared.test.io", "Passed");
  expect((await api.get(path)).text).toBe("theirs");
  await api.delete(name);
  expect((await api.get(path)).body.kind).toBe("WidgetList");
});

test("a backend cannot redirect the client", async () => {
  await using extension = await startExtension(api, {
    handle: (_request, response) => {
      response.writeHead(302, { location: "https://elsewhere.test.io/" }).end();
    },
  });
  const { code, text, headers } = await api.get(`${extension.path}/things`);
  expect([code, headers["location"], text]).toEqual([
    502,
    undefined,
    "the backend attempted to redirect this request, which is not permitted",
  ]);
});

test("abandons a backend that does not answer in time", async () => {
  await using extension = await startExtension(api, { handle: () => undefined });
  const { code, body } = await api.get(`${extension.path}/things?timeout=200ms`);
  expect([code, body.reason, body.message]).toEqual([
    504,
    "Timeout",
    "Timeout: request did not complete within the allotted timeout",
  ]);
});

test("a request that the client cancels is canceled at the backend", async () => {
  const closed = Promise.withResolvers<unknown>();
  await using extension = await startExtension(api, {
    handle: (request) => {
      closed.resolve(once(request.socket, "close"));
    },
  });
  const watch = await api.watch(`${extension.path}/things`);
  await eventually(() => extension.seen.length === 1, { withinMs: 5000 });
  await watch[Symbol.asyncDispose]();
  expect(await closed.promise).toBeDefined();
});
