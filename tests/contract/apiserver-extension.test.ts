// SPDX-License-Identifier: Apache-2.0
// Do webhooks and aggregated servers take part? They are real https servers here.
import { afterEach, beforeEach, expect, test } from "vitest";
import { eventually } from "@patchbay/testing";
import {
  type Backend,
  clientNameOf,
  patchAnswer,
  startBackend,
  startWebhook,
} from "./apiserver-backend.ts";
import { type Harness, startHarness } from "./apiserver-harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const REGISTRATION = "/apis/admissionregistration.k8s.io/v1";

let api: Harness;

beforeEach(async () => {
  api = await startHarness();
});

afterEach(async () => {
  await api.close();
});

function map(name: string) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { a: "1" } };
}

function caBundle(): string {
  return Buffer.from(api.authority.certPem).toString("base64");
}

async function configure(
  type: "Mutating" | "Validating",
  webhook: Readonly<Record<string, unknown>>,
  name = "hook",
): Promise<void> {
  const kind = `${type}WebhookConfiguration`;
  const rules = [
    { operations: ["*"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"] },
  ];
  const full = {
    name: `${name}.test.io`,
    rules,
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
    ...webhook,
  };
  const { code } = await api.post(`${REGISTRATION}/${kind.toLowerCase()}s`, {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind,
    metadata: { name },
    webhooks: [full],
  });
  expect(code).toBe(201);
}

function byUrl(backend: Backend, path = "/hook") {
  return {
    clientConfig: { url: `https://127.0.0.1:${String(backend.port)}${path}`, caBundle: caBundle() },
  };
}

async function available(name: string) {
  const { body } = await api.get(`${API_SERVICES}/${name}`);
  return (body.status?.["conditions"] as { status: string; reason: string }[] | undefined)?.[0];
}

async function expose(name: string, backend: Backend): Promise<void> {
  await api.post("/api/v1/namespaces/default/services", {
    metadata: { name },
    spec: { ports: [{ port: 443, targetPort: 8443 }] },
  });
  await api.post("/api/v1/namespaces/default/endpoints", {
    metadata: { name },
    subsets: [{ addresses: [{ ip: "127.0.0.1" }], ports: [{ port: backend.port }] }],
  });
}

test("a mutating webhook changes what is stored, and warns", async () => {
  await using hook = await startWebhook(api.authority, () => ({
    ...patchAnswer([{ op: "add", path: "/data/hooked", value: "yes" }]),
    warnings: ["careful"],
  }));
  await configure("Mutating", byUrl(hook));
  const { body, headers } = await api.post(MAPS, map("mutated"));
  expect(body.data).toEqual({ a: "1", hooked: "yes" });
  expect(headers["warning"]).toBe('299 - "careful"');
});

test("mutating webhooks run in the order of their names", async () => {
  const append = (letter: string) =>
    startWebhook(api.authority, ({ object }) =>
      patchAnswer([
        { op: "add", path: "/data/order", value: `${object.data?.["order"] ?? ""}${letter}` },
      ]),
    );
  await using second = await append("2");
  await using first = await append("1");
  await configure("Mutating", byUrl(second), "b");
  await configure("Mutating", byUrl(first), "a");
  expect((await api.post(MAPS, map("ordered"))).body.data?.["order"]).toBe("12");
});

test("a validating webhook refuses with its own code and message", async () => {
  await using hook = await startWebhook(api.authority, ({ operation, userInfo }) => ({
    allowed: operation !== "DELETE",
    status: { code: 409, reason: "Conflict", message: `not for ${userInfo.username}` },
  }));
  await configure("Validating", byUrl(hook));
  await api.post(MAPS, map("kept"));
  const { code, body } = await api.delete(`${MAPS}/kept`);
  expect([code, body.message]).toEqual([
    409,
    'admission webhook "hook.test.io" denied the request: not for kubernetes-admin',
  ]);
  expect((await api.get(`${MAPS}/kept`)).code).toBe(200);
});

test("a refusal without a code is 400", async () => {
  await using hook = await startWebhook(api.authority, () => ({ allowed: false }));
  await configure("Validating", byUrl(hook));
  expect((await api.post(MAPS, map("never"))).code).toBe(400);
});

test("an update shows the webhook both states and whether it is a dry run", async () => {
  const seen: unknown[] = [];
  await using hook = await startWebhook(
    api.authority,
    ({ operation, object, oldObject, dryRun }) => {
      seen.push([operation, oldObject?.data?.["a"], object.data?.["a"], dryRun]);
      return { allowed: true };
    },
  );
  await configure("Validating", byUrl(hook));
  await api.post(MAPS, map("seen"));
  await api.patch(`${MAPS}/seen?dryRun=All`, { data: { a: "2" } });
  expect(seen).toEqual([
    ["CREATE", undefined, "1", false],
    ["UPDATE", "1", "2", true],
  ]);
});

test("a webhook behind a Service is found by its endpoints and known by its name", async () => {
  await using hook = await startWebhook(api.authority, () =>
    patchAnswer([{ op: "add", path: "/data/hooked", value: "yes" }]),
  );
  await expose("hook", hook);
  const service = { namespace: "default", name: "hook", path: "/mutate" };
  await configure("Mutating", { clientConfig: { service, caBundle: caBundle() } });
  expect((await api.post(MAPS, map("by-service"))).body.data?.["hooked"]).toBe("yes");
});

test.each([
  { policy: "Fail", want: 500 },
  { policy: "Ignore", want: 201 },
])("a webhook that nobody serves: policy $policy gives $want", async ({ policy, want }) => {
  const backend = await startWebhook(api.authority, () => ({ allowed: true }));
  await backend[Symbol.asyncDispose]();
  await configure("Validating", { ...byUrl(backend), failurePolicy: policy });
  expect((await api.post(MAPS, map("unserved"))).code).toBe(want);
});

test("a webhook that does not answer is given up at its deadline", async () => {
  await using hook = await startBackend(api.authority, "hook.default.svc", () => undefined);
  await configure("Validating", { ...byUrl(hook), timeoutSeconds: 1 });
  const { code, body } = await api.post(MAPS, map("slow"));
  expect([code, body.message]).toEqual([500, expect.stringContaining("context deadline exceeded")]);
});

test("a webhook whose authority is not the one in caBundle is not trusted", async () => {
  await using hook = await startWebhook(api.authority, () => ({ allowed: true }));
  const { clientConfig } = byUrl(hook);
  const other = await startHarness();
  const foreign = Buffer.from(other.authority.certPem).toString("base64");
  await other.close();
  await configure("Validating", { clientConfig: { ...clientConfig, caBundle: foreign } });
  expect((await api.post(MAPS, map("untrusted"))).code).toBe(500);
});

test("rules, selectors of objects and subresources decide whether a webhook is asked", async () => {
  await using hook = await startWebhook(api.authority, () => ({ allowed: false }));
  await configure("Validating", {
    ...byUrl(hook),
    objectSelector: { matchLabels: { guarded: "1" } },
  });
  expect((await api.post(MAPS, map("free"))).code).toBe(201);
  const guarded = { ...map("guarded"), metadata: { name: "guarded", labels: { guarded: "1" } } };
  expect((await api.post(MAPS, guarded)).code).toBe(400);
  const secrets = "/api/v1/namespaces/default/secrets";
  expect(
    (await api.post(secrets, { metadata: { name: "s", labels: { guarded: "1" } } })).code,
  ).toBe(201);
});

function apiService(service: string) {
  return {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name: "v1.sub.test.io" },
    spec: {
      group: "sub.test.io",
      version: "v1",
      service: { namespace: "default", name: service, port: 443 },
      caBundle: caBundle(),
      groupPriorityMinimum: 1000,
      versionPriority: 15,
    },
  };
}

const API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices";

test("an aggregated server is told who asks, by the front proxy, and its answer is passed on", async () => {
  await using backend = await startBackend(
    api.authority,
    "sub.default.svc",
    (request, response) => {
      const { headers, url, method } = request;
      void (async () => {
        let received = "";
        for await (const chunk of request) {
          received += String(chunk);
        }
        response.writeHead(202, { "content-type": "application/json" });
        response.end(
          JSON.stringify({
            proxy: clientNameOf(request),
            user: headers["x-remote-user"],
            groups: headers["x-remote-group"],
            authorization: headers.authorization,
            received,
            url,
            method,
          }),
        );
      })();
    },
  );
  await expose("sub", backend);
  await api.post(API_SERVICES, apiService("sub"));
  await eventually(async () => (await available("v1.sub.test.io"))?.status === "True", {
    withinMs: 5000,
  });
  const { code, body } = await api.put(
    "/apis/sub.test.io/v1/namespaces/default/things/x/do?dryRun=All",
    { name: "n" },
  );
  expect([code, body]).toEqual([
    202,
    {
      proxy: "front-proxy-client",
      user: "kubernetes-admin",
      groups: "system:masters, system:authenticated",
      received: '{"name":"n"}',
      url: "/apis/sub.test.io/v1/namespaces/default/things/x/do?dryRun=All",
      method: "PUT",
    },
  ]);
  expect((await api.get("/apis")).text).toContain('"sub.test.io"');
});

test("an APIService is available once its Service has endpoints", async () => {
  await api.post(API_SERVICES, apiService("late"));
  const seen = () => available("v1.sub.test.io");
  expect(await eventually(seen, { withinMs: 5000 })).toMatchObject({
    status: "False",
    reason: "ServiceNotFound",
  });
  expect((await api.get("/apis/sub.test.io/v1")).code).toBe(503);
  await using backend = await startBackend(
    api.authority,
    "late.default.svc",
    (_request, response) => {
      response.end("{}");
    },
  );
  await expose("late", backend);
  await eventually(async () => (await seen())?.status === "True", { withinMs: 5000 });
  expect((await api.get("/apis/sub.test.io/v1")).code).toBe(200);
});
