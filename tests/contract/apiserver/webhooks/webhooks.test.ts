// SPDX-License-Identifier: Apache-2.0
// Webhook calls: addresses, order, and failures. Webhooks are real https servers here.
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { patchAnswer, startBackend, startWebhook } from "../backend.ts";
import { expose } from "../aggregation/extension-server.ts";
import { type Harness, startHarness } from "../harness.ts";
import { MAPS, aMap, byUrl, configure, forgetWebhooks } from "./configuration.ts";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterEach(async () => {
  await forgetWebhooks(api);
});

afterAll(async () => {
  await api.close();
});

test("a mutating webhook changes the stored object and warns", async () => {
  await using hook = await startWebhook(api.authority, () => ({
    ...patchAnswer([{ op: "add", path: "/data/hooked", value: "yes" }]),
    warnings: ["careful"],
  }));
  await configure(api, { type: "Mutating", webhook: byUrl(api, hook) });
  const { body, headers } = await api.post(MAPS, aMap("mutated"));
  expect(body.data).toEqual({ a: "1", hooked: "yes" });
  expect(headers["warning"]).toBe('299 - "careful"');
});

test("mutating webhooks run in order of their names", async () => {
  const append = (letter: string) =>
    startWebhook(api.authority, ({ object }) =>
      patchAnswer([
        { op: "add", path: "/data/order", value: `${object.data?.["order"] ?? ""}${letter}` },
      ]),
    );
  await using second = await append("2");
  await using first = await append("1");
  await configure(api, { type: "Mutating", name: "b", webhook: byUrl(api, second) });
  await configure(api, { type: "Mutating", name: "a", webhook: byUrl(api, first) });
  expect((await api.post(MAPS, aMap("ordered"))).body.data?.["order"]).toBe("12");
});

test("a webhook that denies a deletion preserves the object", async () => {
  await using hook = await startWebhook(api.authority, ({ operation, userInfo }) => ({
    allowed: operation !== "DELETE",
    status: { code: 409, reason: "Conflict", message: `not for ${userInfo.username}` },
  }));
  await configure(api, { type: "Validating", webhook: byUrl(api, hook) });
  await api.post(MAPS, aMap("kept"));
  const { code, body } = await api.delete(`${MAPS}/kept`);
  expect([code, body.message]).toEqual([
    409,
    'admission webhook "hook.test.io" denied the request: not for kubernetes-admin',
  ]);
  expect((await api.get(`${MAPS}/kept`)).code).toBe(200);
});

test("forwards the dry run flag and stores nothing", async () => {
  const observed: boolean[] = [];
  await using hook = await startWebhook(api.authority, ({ dryRun }) => {
    observed.push(dryRun);
    return { allowed: true };
  });
  await configure(api, { type: "Validating", webhook: byUrl(api, hook) });
  expect((await api.post(`${MAPS}?dryRun=All`, aMap("dry"))).code).toBe(201);
  expect((await api.get(`${MAPS}/dry`)).code).toBe(404);
  expect(observed).toEqual([true]);
});

test("reaches a webhook behind a Service at its endpoints under its DNS name", async () => {
  await using hook = await startWebhook(api.authority, () =>
    patchAnswer([{ op: "add", path: "/data/hooked", value: "yes" }]),
  );
  await expose(api, "hook", [hook.port]);
  const { clientConfig } = byUrl(api, hook);
  const service = { namespace: "default", name: "hook", path: "/mutate" };
  const webhook = { clientConfig: { service, caBundle: clientConfig.caBundle } };
  await configure(api, { type: "Mutating", webhook });
  expect((await api.post(MAPS, aMap("by-service"))).body.data?.["hooked"]).toBe("yes");
});

test.each([
  { policy: "Fail", want: 500 },
  { policy: "Ignore", want: 201 },
])("an unserved webhook with policy $policy returns $want", async ({ policy, want }) => {
  const backend = await startWebhook(api.authority, () => ({ allowed: true }));
  await backend[Symbol.asyncDispose]();
  const webhook = { ...byUrl(api, backend), failurePolicy: policy };
  await configure(api, { type: "Validating", webhook });
  expect((await api.post(MAPS, aMap("unserved"))).code).toBe(want);
});

test("abandons a webhook that does not answer by its deadline", async () => {
  await using hook = await startBackend(api.authority, "hook.default.svc", () => undefined);
  const webhook = { ...byUrl(api, hook), timeoutSeconds: 1 };
  await configure(api, { type: "Validating", webhook });
  const { code, body } = await api.post(MAPS, aMap("slow"));
  expect([code, body.message]).toEqual([
    500,
    expect.stringMatching(/\?timeout=1s": context deadline exceeded$/),
  ]);
});

test("does not trust a webhook whose CA differs from caBundle", async () => {
  await using hook = await startWebhook(api.authority, () => ({ allowed: true }));
  const { clientConfig } = byUrl(api, hook);
  const other = await startHarness();
  const caBundle = Buffer.from(other.authority.certPem).toString("base64");
  await other.close();
  const webhook = { clientConfig: { ...clientConfig, caBundle } };
  await configure(api, { type: "Validating", webhook });
  const { code, body } = await api.post(MAPS, aMap("untrusted"));
  expect([code, body.message]).toEqual([
    500,
    expect.stringContaining("x509: certificate signed by unknown authority"),
  ]);
});
