// SPDX-License-Identifier: Apache-2.0
// Webhook responses, valid, invalid and missing.
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  type Backend,
  type ReviewRequest,
  patchAnswer,
  startBackend,
  startWebhook,
} from "../backend.ts";
import { type Harness, startHarness, widgetDefinition } from "../harness.ts";
import { MAPS, aMap, byUrl, configure, forgetWebhooks, rulesFor } from "./configuration.ts";

let api: Harness;
const started: Backend[] = [];

beforeAll(async () => {
  api = await startHarness();
});

afterEach(async () => {
  await forgetWebhooks(api);
  await Promise.all(started.splice(0).map((backend) => backend[Symbol.asyncDispose]()));
});

afterAll(async () => {
  await api.close();
});

type Answering = (request: ReviewRequest) => Readonly<Record<string, unknown>>;

/** A webhook with this response, configured until the test ends. */
async function answering(
  input: {
    readonly type: "Mutating" | "Validating";
    readonly name?: string;
    readonly webhook?: object;
  },
  answer: Answering,
): Promise<void> {
  const backend = await startWebhook(api.authority, answer);
  started.push(backend);
  const { type, name = "hook", webhook = {} } = input;
  await configure(api, { type, name, webhook: { ...byUrl(api, backend), ...webhook } });
}

/** A webhook with the body `text`; `TOLD` in it is replaced by the uid. */
function raw(text: string, code = 200): Promise<Backend> {
  return startBackend(api.authority, "hook.default.svc", (request, response) => {
    void (async () => {
      let requested = "";
      for await (const chunk of request) {
        requested += String(chunk);
      }
      const { uid } = (JSON.parse(requested) as { request: { uid: string } }).request;
      response.writeHead(code, { "content-type": "application/json" });
      response.end(text.replace("TOLD", uid));
    })();
  });
}

const KIND = { kind: "AdmissionReview", apiVersion: "admission.k8s.io/v1" };

test.each([
  {
    name: "an empty status",
    status: undefined,
    want: [
      400,
      undefined,
      'admission webhook "hook.test.io" denied the request without explanation',
    ],
  },
  {
    name: "a message",
    status: { message: "no" },
    want: [400, undefined, 'admission webhook "hook.test.io" denied the request: no'],
  },
  {
    name: "a reason",
    status: { reason: "Forbidden", code: 403 },
    want: [403, "Forbidden", 'admission webhook "hook.test.io" denied the request: Forbidden'],
  },
  {
    name: "a code that is not an error",
    status: { code: 200, message: "no", status: "Success" },
    want: [400, undefined, 'admission webhook "hook.test.io" denied the request: no'],
  },
])("rejects with $name", async ({ status, want }) => {
  await answering({ type: "Validating" }, () => ({ allowed: false, status }));
  const { code, body } = await api.post(MAPS, aMap("refused"));
  expect([code, body.reason, body.message]).toEqual(want);
  expect((await api.get(`${MAPS}/refused`)).code).toBe(404);
});

test("details and warnings of a rejection reach the client", async () => {
  const details = { causes: [{ field: "data.a", message: "bad", reason: "FieldValueInvalid" }] };
  await answering({ type: "Validating" }, () => ({
    allowed: false,
    status: { code: 422, reason: "Invalid", details },
    warnings: ['so "careful"', "again"],
    auditAnnotations: { key: "value" },
  }));
  const { code, body, headers } = await api.post(MAPS, aMap("refused"));
  expect([code, body.details]).toEqual([422, details]);
  expect(headers["warning"]).toBe('299 - "so \\"careful\\"", 299 - "again"');
});

test.each([
  {
    name: "no uid",
    text: { ...KIND, response: { allowed: true } },
    want: "expected response.uid=",
  },
  {
    name: "another kind",
    text: { kind: "Other", apiVersion: "x/v1", response: { uid: "TOLD", allowed: true } },
    want: "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got x/v1, Kind=Other",
  },
  { name: "no response", text: KIND, want: "webhook response was absent" },
  {
    name: "a patch without its type",
    text: { ...KIND, response: { uid: "TOLD", allowed: true, patch: "W10=" } },
    want: "webhook returned response.patch but not response.patchType",
  },
  {
    name: "a type without a patch",
    text: { ...KIND, response: { uid: "TOLD", allowed: true, patchType: "JSONPatch" } },
    want: "webhook returned response.patchType but not response.patch",
  },
  {
    name: "a patch of another type",
    text: { ...KIND, response: { uid: "TOLD", allowed: true, patch: "W10=", patchType: "Merge" } },
    want: 'unsupported patch type "Merge"',
  },
  {
    name: "broken base64",
    text: { ...KIND, response: { uid: "TOLD", allowed: true, patch: "!", patchType: "JSONPatch" } },
    want: "illegal base64 data at input byte 0",
  },
  { name: "invalid JSON", text: "<html>", want: "json parse error" },
])("treats a response with $name as a failure under the policy", async ({ text, want }) => {
  await using hook = await raw(typeof text === "string" ? text : JSON.stringify(text));
  await configure(api, { type: "Mutating", webhook: byUrl(api, hook) });
  const { code, body } = await api.post(MAPS, aMap("failed"));
  expect([code, body.reason]).toEqual([500, "InternalError"]);
  expect(body.message).toContain('failed calling webhook "hook.test.io": ');
  expect(body.message).toContain(want);
  await api.patch(
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/hook",
    [{ op: "replace", path: "/webhooks/0/failurePolicy", value: "Ignore" }],
    "application/json-patch+json",
  );
  expect((await api.post(MAPS, aMap("failed"))).code).toBe(201);
});

test.each([
  { code: 404, want: "the server could not find the requested resource" },
  { code: 500, want: 'an error on the server ("oops") has prevented the request from succeeding' },
  { code: 503, want: "the server is currently unable to handle the request" },
])("treats $code from a webhook as a failure", async ({ code, want }) => {
  await using hook = await raw("oops", code);
  await configure(api, { type: "Validating", webhook: byUrl(api, hook) });
  expect((await api.post(MAPS, aMap("failed"))).body.message).toBe(
    `Internal error occurred: failed calling webhook "hook.test.io": failed to call webhook: ${want}`,
  );
});

test("names an unreachable webhook with address and reason", async () => {
  const backend = await startWebhook(api.authority, () => ({ allowed: true }));
  await backend[Symbol.asyncDispose]();
  await configure(api, { type: "Validating", webhook: byUrl(api, backend, "/some/path") });
  const at = `127.0.0.1:${String(backend.port)}`;
  expect((await api.post(MAPS, aMap("unserved"))).body.message).toBe(
    `Internal error occurred: failed calling webhook "hook.test.io": failed to call webhook: Post "https://${at}/some/path?timeout=10s": dial tcp ${at}: connect: connection refused`,
  );
});

test.each([
  { name: "no Service", make: [], want: 'service "hook" not found' },
  { name: "no endpoints", make: ["services"], want: 'endpoints "hook" not found' },
])("treats a Service reference with $name as a failure", async ({ make, want }) => {
  for (const resource of make) {
    await api.post(`/api/v1/namespaces/default/${resource}`, {
      metadata: { name: "hook" },
      spec: { ports: [{ port: 443 }] },
    });
  }
  const clientConfig = { service: { namespace: "default", name: "hook", path: "/x" } };
  await configure(api, { type: "Validating", webhook: { clientConfig } });
  expect((await api.post(MAPS, aMap("unserved"))).body.message).toContain(
    `Post "https://hook.default.svc:443/x?timeout=10s": ${want}`,
  );
});

test("a broken JSON patch is an internal error, whatever the policy", async () => {
  await answering({ type: "Mutating", webhook: { failurePolicy: "Ignore" } }, () =>
    patchAnswer([{ op: "remove", path: "/spec/absent/deep" }]),
  );
  const { code, body } = await api.post(MAPS, aMap("unpatched"));
  expect([code, body.reason]).toEqual([500, "InternalError"]);
});

test("rejects changes to an object that is being deleted", async () => {
  await answering(
    { type: "Mutating", webhook: rulesFor(["configmaps"], { operations: ["DELETE"] }) },
    () => patchAnswer([{ op: "add", path: "/data", value: {} }]),
  );
  await api.post(MAPS, aMap("kept"));
  const { code, body } = await api.delete(`${MAPS}/kept`);
  expect([code, body.message]).toEqual([
    500,
    'Internal error occurred: admission webhook "hook.test.io" attempted to modify the object, which is not supported for this operation',
  ]);
});

test.each([
  { path: "/metadata/name", value: "other", want: 422 },
  { path: "/metadata/uid", value: "other", want: 422 },
  { path: "/metadata/namespace", value: "other", want: 400 },
  { path: "/data", value: "text", want: 500 },
])("rejects a patch of $path at an update with $want", async ({ path, value, want }) => {
  await api.post(MAPS, aMap("identity"));
  await answering({ type: "Mutating" }, () => patchAnswer([{ op: "add", path, value }]));
  expect((await api.patch(`${MAPS}/identity`, { data: { a: "2" } })).code).toBe(want);
  expect((await api.get(`${MAPS}/identity`)).body.data).toEqual({ a: "1" });
});

test("prunes and defaults what a mutating webhook adds, then validates it", async () => {
  const definition = widgetDefinition("mutated.test.io", {
    type: "object",
    properties: {
      spec: {
        type: "object",
        properties: {
          size: { type: "string", maxLength: 3 },
          colour: { type: "string", default: "red" },
        },
      },
    },
  });
  await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
  const sizes: unknown[] = [];
  await answering({ type: "Mutating", name: "a", webhook: rulesFor(["widgets"]) }, ({ name }) =>
    patchAnswer([{ op: "add", path: "/spec", value: { size: name, junk: 1 } }]),
  );
  await answering({ type: "Mutating", name: "b", webhook: rulesFor(["widgets"]) }, ({ object }) => {
    sizes.push(object.spec);
    return { allowed: true };
  });
  const path = "/apis/mutated.test.io/v1/namespaces/default/widgets";
  const widget = (name: string) => ({
    apiVersion: "mutated.test.io/v1",
    kind: "Widget",
    metadata: { name },
  });
  expect((await api.post(path, widget("abc"))).body.spec).toEqual({ size: "abc", colour: "red" });
  expect((await api.post(path, widget("abcd"))).code).toBe(422);
  expect(sizes[0]).toEqual({ size: "abc", colour: "red" });
});

test("a webhook cannot set fields that only the server sets", async () => {
  await api.post(
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    widgetDefinition("set.test.io"),
  );
  await answering({ type: "Mutating", webhook: rulesFor(["widgets"]) }, () =>
    patchAnswer([
      { op: "add", path: "/metadata/uid", value: "mine" },
      { op: "add", path: "/metadata/generation", value: 7 },
      { op: "add", path: "/metadata/deletionTimestamp", value: "2020-01-01T00:00:00Z" },
      { op: "add", path: "/status", value: { phase: "Done" } },
      { op: "add", path: "/metadata/labels", value: { set: "yes" } },
    ]),
  );
  const { body } = await api.post("/apis/set.test.io/v1/namespaces/default/widgets", {
    apiVersion: "set.test.io/v1",
    kind: "Widget",
    metadata: { name: "w" },
  });
  expect(body.metadata).toMatchObject({ generation: 1, labels: { set: "yes" } });
  expect([body.metadata.uid, body.metadata.deletionTimestamp, body.status]).toEqual([
    expect.not.stringMatching("mine"),
    undefined,
    undefined,
  ]);
});

test("calls a webhook with reinvocation again when a later one changed the object", async () => {
  const requested: string[] = [];
  const append = (letter: string): Answering => {
    return ({ object }) => {
      requested.push(letter);
      const order = `${object.data?.["order"] ?? ""}${letter}`;
      return patchAnswer([{ op: "add", path: "/data/order", value: order }]);
    };
  };
  const ifNeeded = { reinvocationPolicy: "IfNeeded" };
  await answering({ type: "Mutating", name: "a", webhook: ifNeeded }, append("a"));
  await answering({ type: "Mutating", name: "b" }, append("b"));
  await answering({ type: "Mutating", name: "c", webhook: ifNeeded }, append("c"));
  const { body } = await api.post(MAPS, aMap("again"));
  expect(requested).toEqual(["a", "b", "c", "a"]);
  expect(body.data?.["order"]).toBe("abca");
});

test("validating webhooks receive the mutated object", async () => {
  const observed: unknown[] = [];
  await answering({ type: "Mutating", name: "z" }, () =>
    patchAnswer([{ op: "add", path: "/data/made", value: "yes" }]),
  );
  await answering({ type: "Validating", name: "a" }, ({ object }) => {
    observed.push(object.data);
    return { allowed: true };
  });
  await api.post(MAPS, aMap("made"));
  expect(observed).toEqual([{ a: "1", made: "yes" }]);
});

test("sends v1beta1 reviews to a webhook of that version", async () => {
  const answer = { response: { allowed: true, patch: "W10=" } };
  await using hook = await raw(JSON.stringify(answer));
  const webhook = { ...byUrl(api, hook), admissionReviewVersions: ["v9", "v1beta1", "v1"] };
  await configure(api, { type: "Mutating", webhook });
  expect((await api.post(MAPS, aMap("old"))).code).toBe(201);
});
