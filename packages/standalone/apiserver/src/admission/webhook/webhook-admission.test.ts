// SPDX-License-Identifier: Apache-2.0
// Webhooks that are asked over HTTP in memory: what they receive, and how refusals are reported.
import { describe, expect, test } from "vitest";
import { defineKind } from "../../kinds/kind.ts";
import type { Fields } from "../../objects/json.ts";
import { SUBSET, endpoints, service } from "../../testing/far-api.ts";
import { type ConnectTarget, makeBackendServer } from "../../testing/memory-network.ts";
import {
  GROUP,
  makeWebhookServer,
  hook,
  label,
  makeAdmission,
  admissionRequest,
  same,
} from "../../testing/webhook-server.ts";
import type { Mutation } from "../admission.ts";

test("a webhook receives the whole request", async () => {
  const one = makeWebhookServer({});
  const { admission, connections } = await makeAdmission(
    { "one:443": one.server },
    { validating: [hook("one")] },
  );
  await admission.validate(admissionRequest());
  const { request, body } = one.received[0] ?? { request: undefined, body: "null" };
  expect([request?.method, request?.url]).toEqual(["POST", "/path?timeout=10s"]);
  expect(request?.headers).toMatchObject({
    host: "one",
    accept: "application/json, */*",
    "content-type": "application/json",
    "user-agent": "kube-apiserver-admission",
  });
  expect(JSON.parse(body)).toEqual({
    kind: "AdmissionReview",
    apiVersion: "admission.k8s.io/v1",
    request: {
      uid: "uid-1",
      kind: { group: "", version: "v1", kind: "ConfigMap" },
      resource: { group: "", version: "v1", resource: "configmaps" },
      requestKind: { group: "", version: "v1", kind: "ConfigMap" },
      requestResource: { group: "", version: "v1", resource: "configmaps" },
      name: "m",
      namespace: "ns",
      operation: "CREATE",
      userInfo: { username: "eve", groups: ["g"] },
      object: admissionRequest().object,
      oldObject: null,
      dryRun: false,
      options: { kind: "CreateOptions" },
    },
  });
  expect(connections.attempts[0]?.peer).toEqual({
    addresses: [{ host: "one", port: 443 }],
    serverName: "one",
    caPem: "",
  });
});

test("a user's large reviews are sent one after another, and others pass them", async () => {
  const held: (() => void)[] = [];
  const users: string[] = [];
  const { server } = makeBackendServer((_request, response, body) => {
    const { request } = JSON.parse(body) as {
      readonly request: { readonly uid: string; readonly userInfo: { readonly username: string } };
    };
    users.push(request.userInfo.username);
    const answer = {
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      response: { uid: request.uid, allowed: true },
    };
    held.push(() => response.end(JSON.stringify(answer)));
  });
  const { admission } = await makeAdmission({ "one:443": server }, { validating: [hook("one")] });
  const review = (name: string, length: number): Promise<void> => {
    const { object } = admissionRequest();
    const data = { key: "x".repeat(length) };
    const user = { name, groups: [] };
    return admission.validate(admissionRequest({ user, object: { ...object, data } }));
  };
  const all = [review("eve", 300_000), review("eve", 300_000), review("bob", 10)];
  await expect.poll(() => users).toEqual(["eve", "bob"]);
  held.shift()?.();
  await expect.poll(() => users).toEqual(["eve", "bob", "eve"]);
  for (const release of held) release();
  await Promise.all(all);
});

describe("a rejection or failure", () => {
  const text = (code: number, body: string) =>
    makeBackendServer((_request, response) => response.writeHead(code).end(body)).server;
  const failed = (why: string): string =>
    `Internal error occurred: failed calling webhook "one": failed to call webhook: ${why}`;
  const invalid = (why: string): string =>
    `Internal error occurred: failed calling webhook "one": received invalid webhook response: ${why}`;
  /** A server that allows everything in an answer of its own form. */
  const raw = (form: Fields) =>
    text(200, JSON.stringify({ ...form, response: { uid: "uid-1", allowed: true } }));
  const post = 'Post "https://one/path?timeout=10s": ';

  test.each<{
    name: string;
    reached: ConnectTarget;
    hook?: Fields;
    asked?: Partial<Mutation>;
    code: number;
    message: string;
  }>([
    {
      name: "a rejection without a reason",
      reached: makeWebhookServer({ allowed: false }).server,
      code: 400,
      message: 'admission webhook "one" denied the request without explanation',
    },
    {
      name: "a rejection with a message and a code",
      reached: makeWebhookServer({
        allowed: false,
        status: { code: 409, message: "no", reason: "Taken" },
      }).server,
      code: 409,
      message: 'admission webhook "one" denied the request: no',
    },
    {
      name: "a rejection with only a reason",
      reached: makeWebhookServer({ allowed: false, status: { code: 200, reason: "Taken" } }).server,
      code: 400,
      message: 'admission webhook "one" denied the request: Taken',
    },
    {
      name: "a rejection with an empty status",
      reached: makeWebhookServer({ allowed: false, status: {} }).server,
      code: 400,
      message: 'admission webhook "one" denied the request without explanation',
    },
    {
      name: "a rejection with code 399",
      reached: makeWebhookServer({ allowed: false, status: { code: 399, message: "no" } }).server,
      code: 400,
      message: 'admission webhook "one" denied the request: no',
    },
    {
      name: "a response of another kind",
      reached: raw({ apiVersion: "admission.k8s.io/v1", kind: "Other" }),
      code: 500,
      message: invalid(
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1, Kind=Other",
      ),
    },
    {
      name: "a response of another version",
      reached: raw({ apiVersion: "v1", kind: "AdmissionReview" }),
      code: 500,
      message: invalid(
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=AdmissionReview",
      ),
    },
    {
      name: "a response with code 300",
      reached: text(300, "{}"),
      code: 500,
      message: failed(
        "the server responded with the status code 300 but did not return more information",
      ),
    },
    {
      name: "an unreachable webhook",
      reached: "ECONNREFUSED",
      code: 500,
      message: failed(`${post}dial tcp one:443: connect: connection refused`),
    },
    {
      name: "a response with code 404",
      reached: text(404, ""),
      code: 500,
      message: failed("the server could not find the requested resource"),
    },
    {
      name: "a response with code 500",
      reached: text(500, " oh "),
      code: 500,
      message: failed('an error on the server ("oh") has prevented the request from succeeding'),
    },
    {
      name: "a response with code 302",
      reached: text(302, ""),
      code: 500,
      message: failed(
        "the server responded with the status code 302 but did not return more information",
      ),
    },
    {
      name: "an empty response body",
      reached: text(200, ""),
      code: 500,
      message: failed("0-length response with status code: 200 and content type: "),
    },
    {
      name: "a response that is not JSON",
      reached: text(200, "{"),
      code: 500,
      message: expect.stringContaining("json parse error") as string,
    },
    {
      name: "a review without a response",
      reached: text(200, "{}"),
      code: 500,
      message: invalid("webhook response was absent"),
    },
    {
      name: "a response with another uid",
      reached: makeWebhookServer({ uid: "x" }).server,
      code: 500,
      message: invalid('expected response.uid="uid-1", got "x"'),
    },
    {
      name: "a response with text in the field allowed",
      reached: makeWebhookServer({ allowed: "yes" }).server,
      code: 500,
      message: expect.stringContaining("cannot unmarshal string") as string,
    },
    {
      name: "a patch from a validating webhook",
      reached: makeWebhookServer(label("x")).server,
      code: 500,
      message: invalid("validating webhook may not return response.patch"),
    },
    {
      name: "a patch type from a validating webhook",
      reached: makeWebhookServer({ patchType: "JSONPatch" }).server,
      code: 500,
      message: invalid("validating webhook may not return response.patchType"),
    },
    {
      name: "an unsupported dry run",
      reached: makeWebhookServer({}).server,
      hook: { sideEffects: "Some" },
      asked: { dryRun: true },
      code: 400,
      message: 'admission webhook "one" does not support dry run',
    },
    {
      name: "a failing match condition",
      reached: makeWebhookServer({}).server,
      hook: { matchConditions: [{ name: "c", expression: "object.nope.x == 1" }] },
      code: 403,
      message: expect.stringContaining("matchConditions[c]") as string,
    },
    {
      name: "a missing Service",
      reached: makeWebhookServer({}).server,
      hook: { clientConfig: { service: { namespace: "a", name: "b", path: "p" } } },
      code: 500,
      message: failed('Post "https://b.a.svc:443/p?timeout=10s": service "b" not found'),
    },
  ])("$name is reported", async ({ reached, hook: change = {}, asked = {}, code, message }) => {
    const { admission } = await makeAdmission(
      { "one:443": reached },
      { validating: [hook("one", change)] },
    );
    await expect(admission.validate(admissionRequest(asked))).rejects.toMatchObject({
      code,
      message,
    });
  });

  test("of a webhook with failurePolicy Ignore is logged", async () => {
    const { admission, warned } = await makeAdmission(
      {},
      { validating: [hook("one", { failurePolicy: "Ignore" })] },
    );
    await admission.validate(admissionRequest());
    expect(warned).toEqual([expect.stringContaining("webhook failed and is ignored") as string]);
  });
});

test("a rejection carries the details from the webhook", async () => {
  const status = { code: 403, message: "no", details: { name: "n", kind: "k" } };
  const { admission } = await makeAdmission(
    { "one:443": makeWebhookServer({ allowed: false, status }).server },
    { validating: [hook("one")] },
  );
  await expect(admission.validate(admissionRequest())).rejects.toMatchObject({
    code: 403,
    details: { name: "n", kind: "k" },
  });
});

describe("a webhook is called", () => {
  test("at the port and the path of its URL", async () => {
    const one = makeWebhookServer({});
    const { admission, connections } = await makeAdmission(
      { "[fd00::1]:8443": one.server },
      { validating: [hook("one", { clientConfig: { url: "https://[fd00::1]:8443/a/b" } })] },
    );
    await admission.validate(admissionRequest());
    expect(one.received[0]?.request.url).toBe("/a/b?timeout=10s");
    expect(one.received[0]?.request.headers.host).toBe("[fd00::1]:8443");
    expect(connections.attempts[0]?.peer).toEqual({
      addresses: [{ host: "fd00::1", port: 8443 }],
      serverName: "fd00::1",
      caPem: "",
    });
  });

  test.each([
    { path: undefined, port: undefined, url: "/", host: "far.default.svc:443" },
    { path: "/a", port: 443, url: "/a", host: "far.default.svc:443" },
    { path: "a", port: 443, url: "/a", host: "far.default.svc:443" },
  ])("at the endpoints of its Service: $path", async ({ path, port, url, host }) => {
    const one = makeWebhookServer({});
    const { admission, connections, store } = await makeAdmission(
      { "10.0.0.2:8443": one.server },
      {
        validating: [
          hook("one", {
            clientConfig: {
              service: { namespace: "default", name: "far", path, port },
              caBundle: Buffer.from("CA").toString("base64"),
            },
          }),
        ],
      },
    );
    await store.write((transaction) => {
      const at = { namespace: "default", name: "far" };
      transaction.put({ bucket: "/services", ...at }, service());
      transaction.put({ bucket: "/endpoints", ...at }, endpoints(SUBSET));
    });
    await admission.validate(admissionRequest());
    const [received] = one.received;
    expect([received?.request.url, received?.request.headers.host]).toEqual([
      `${url}?timeout=10s`,
      host,
    ]);
    expect(connections.attempts[0]?.peer).toEqual({
      addresses: [
        { host: "10.0.0.1", port: 8443 },
        { host: "10.0.0.2", port: 8443 },
      ],
      serverName: "far.default.svc",
      caPem: "CA",
    });
  });
});

describe("AdmissionReview v1beta1", () => {
  const first = { admissionReviewVersions: ["v2", "v1beta1", "v1"] };

  test("is used when the webhook prefers it, and works without uid and type", async () => {
    const one = makeBackendServer((_request, response) => {
      const { patch } = label("one");
      response.end(JSON.stringify({ response: { allowed: true, patch } }));
    });
    const { admission } = await makeAdmission(
      { "one:443": one.server },
      { mutating: [hook("one", first)] },
    );
    const object = await admission.mutate(admissionRequest(), same);
    expect(object.metadata.labels).toEqual({ one: "1" });
    expect(JSON.parse(one.received[0]?.body ?? "")).toMatchObject({
      apiVersion: "admission.k8s.io/v1beta1",
    });
  });

  test("does not let a validating webhook change the object", async () => {
    const one = makeWebhookServer({ uid: "other", ...label("one") });
    const { admission } = await makeAdmission(
      { "one:443": one.server },
      { validating: [hook("one", first)] },
    );
    await expect(admission.validate(admissionRequest())).resolves.toBeUndefined();
  });
});

test("a review of a namespace has that namespace as its namespace", async () => {
  const one = makeWebhookServer({});
  const rules = [{ operations: ["*"], apiGroups: [""], apiVersions: ["v1"], resources: ["*/*"] }];
  const { admission } = await makeAdmission(
    { "one:443": one.server },
    { validating: [hook("one", { rules })] },
  );
  const kind = defineKind({
    group: "",
    version: "v1",
    resource: "namespaces",
    kind: "Namespace",
    namespaced: false,
  });
  await admission.validate(
    admissionRequest({ kind, namespace: "", name: "n", subresource: "status" }),
  );
  const { request } = JSON.parse(one.received[0]?.body ?? "") as { request: Fields };
  expect(request).toMatchObject({
    name: "n",
    namespace: "n",
    subResource: "status",
    requestSubResource: "status",
  });
});

test("a review of a subresource body contains the body unchanged", async () => {
  const one = makeWebhookServer({});
  const rules = [
    { operations: ["*"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps/x"] },
  ];
  const { admission } = await makeAdmission(
    { "one:443": one.server },
    { validating: [hook("one", { rules })] },
  );
  const object = { apiVersion: "a/v1", kind: "Body", metadata: { name: "m" } };
  const bodyKind = { group: "a", version: "v1", kind: "Body" };
  await admission.validate(
    admissionRequest({ subresource: "x", bodyKind, object, oldObject: object }),
  );
  const { request } = JSON.parse(one.received[0]?.body ?? "") as { request: Fields };
  expect(request).toMatchObject({
    object,
    oldObject: object,
    kind: bodyKind,
    requestKind: bodyKind,
    resource: { group: "", version: "v1", resource: "configmaps" },
  });
});

describe("a webhook is not called", () => {
  test.each<{ name: string; hook?: Fields; asked?: Partial<Mutation> }>([
    {
      name: "for webhook configurations",
      hook: {
        rules: [{ operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"] }],
      },
      asked: {
        kind: defineKind({
          group: GROUP,
          version: "v1",
          resource: "validatingwebhookconfigurations",
          kind: "ValidatingWebhookConfiguration",
          namespaced: false,
        }),
      },
    },
    {
      name: "for other kinds",
      hook: {
        rules: [{ operations: ["*"], apiGroups: [""], apiVersions: ["v1"], resources: ["pods"] }],
      },
    },
    {
      name: "for other operations",
      hook: {
        rules: [
          {
            operations: ["DELETE"],
            apiGroups: [""],
            apiVersions: ["v1"],
            resources: ["configmaps"],
          },
        ],
      },
    },
    {
      name: "if a match condition is not met",
      hook: { matchConditions: [{ name: "c", expression: "object.metadata.name == 'x'" }] },
    },
    {
      name: "if a match condition fails under policy Ignore",
      hook: {
        failurePolicy: "Ignore",
        matchConditions: [{ name: "c", expression: "object.nope.x == 1" }],
      },
    },
    {
      name: "for objects that its selector does not match",
      hook: { objectSelector: { matchLabels: { a: "b" } } },
    },
    {
      name: "for namespaces that its selector does not match",
      hook: { namespaceSelector: { matchExpressions: [{ key: "a", operator: "Exists" }] } },
    },
  ])("$name", async ({ hook: change = {}, asked = {} }) => {
    const one = makeWebhookServer({ allowed: false });
    const { admission } = await makeAdmission(
      { "one:443": one.server },
      { validating: [hook("one", change)], mutating: [hook("one", change)] },
    );
    const given = admissionRequest(asked);
    await admission.admitDeletion({ ...given, operation: given.operation });
    expect(await admission.mutate(given, same)).toBe(given.object);
    expect(one.received).toEqual([]);
  });
});
