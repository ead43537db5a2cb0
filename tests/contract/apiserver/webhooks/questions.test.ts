// SPDX-License-Identifier: Apache-2.0
// Reviews sent to webhooks, which are real https servers here.
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import { type Harness, startHarness, widgetDefinition } from "../harness.ts";
import { MAPS, aMap, forgetWebhooks, rulesFor, startRecorder } from "./configuration.ts";

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

test("each operation includes its objects, its options and the user", async () => {
  await using hook = await startRecorder(api, { type: "Validating", webhook: {} });
  await api.post(`${MAPS}?fieldManager=me`, aMap("told"));
  await api.put(`${MAPS}/told`, { ...aMap("told"), data: { a: "2" } });
  await api.patch(`${MAPS}/told`, { data: { a: "3" } });
  await api.delete(`${MAPS}/told`, { propagationPolicy: "Background" });
  expect(hook.seen.map(({ operation }) => operation)).toEqual([
    "CREATE",
    "UPDATE",
    "UPDATE",
    "DELETE",
  ]);
  const states = hook.seen.map(({ object, oldObject }) => [
    (object as typeof oldObject)?.data?.["a"] ?? null,
    oldObject?.data?.["a"] ?? null,
  ]);
  expect(states).toEqual([
    ["1", null],
    ["2", "1"],
    ["3", "2"],
    [null, "3"],
  ]);
  expect(hook.seen[0]).toMatchObject({
    kind: { group: "", version: "v1", kind: "ConfigMap" },
    resource: { group: "", version: "v1", resource: "configmaps" },
    requestKind: { group: "", version: "v1", kind: "ConfigMap" },
    requestResource: { group: "", version: "v1", resource: "configmaps" },
    name: "told",
    namespace: "default",
    oldObject: null,
    options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1", fieldManager: "me" },
    dryRun: false,
    userInfo: { username: "kubernetes-admin", groups: ["system:masters", "system:authenticated"] },
  });
  expect(hook.seen[0]).not.toHaveProperty("subResource");
  expect(hook.seen.map(({ options }) => options.kind)).toEqual([
    "CreateOptions",
    "UpdateOptions",
    "UpdateOptions",
    "DeleteOptions",
  ]);
  expect(hook.seen[3]).toMatchObject({
    object: null,
    options: { propagationPolicy: "Background" },
  });
});

test("a generated name is unset before its generation", async () => {
  await using mutating = await startRecorder(api, { type: "Mutating", name: "m", webhook: {} });
  await using validating = await startRecorder(api, { type: "Validating", name: "v", webhook: {} });
  const { metadata, ...map } = aMap("");
  const { body } = await api.post(MAPS, { ...map, metadata: { ...metadata, generateName: "g-" } });
  expect([mutating.seen[0]?.name, validating.seen[0]?.name]).toEqual([undefined, undefined]);
  expect(mutating.seen[0]?.object.metadata).not.toHaveProperty("uid");
  expect(validating.seen[0]?.object.metadata).toMatchObject({
    name: body.metadata.name,
    uid: body.metadata.uid,
  });
});

test("calls mutating webhooks at deletion too", async () => {
  await using hook = await startRecorder(api, {
    type: "Mutating",
    webhook: rulesFor(["configmaps"], { operations: ["DELETE"] }),
  });
  await api.post(MAPS, aMap("gone"));
  await api.delete(`${MAPS}/gone`);
  expect(hook.seen.map(({ operation, name }) => [operation, name])).toEqual([["DELETE", "gone"]]);
});

test("deleting a collection reviews each object", async () => {
  await using hook = await startRecorder(api, {
    type: "Validating",
    webhook: rulesFor(["configmaps"], { operations: ["DELETE"] }),
  });
  const labels = { labels: { some: "label" } };
  await Promise.all(["a", "b", "c"].map((name) => api.post(MAPS, aMap(name, labels))));
  await api.delete(`${MAPS}?labelSelector=some%3Dlabel`);
  expect(new Set(hook.seen.map(({ name }) => name))).toEqual(new Set(["a", "b", "c"]));
  expect(hook.seen).toHaveLength(3);
});

test("rules for a resource do not match its subresources, nor the reverse", async () => {
  const definition = widgetDefinition("hooked.test.io");
  await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
  await using main = await startRecorder(api, {
    type: "Validating",
    name: "main",
    webhook: rulesFor(["widgets"]),
  });
  await using status = await startRecorder(api, {
    type: "Validating",
    name: "status",
    webhook: rulesFor(["widgets/status"]),
  });
  await using both = await startRecorder(api, {
    type: "Validating",
    name: "both",
    webhook: rulesFor(["widgets/*"]),
  });
  const path = "/apis/hooked.test.io/v1/namespaces/default/widgets";
  const widget = { apiVersion: "hooked.test.io/v1", kind: "Widget", metadata: { name: "w" } };
  expect((await api.post(path, widget)).code).toBe(201);
  expect((await api.patch(`${path}/w/status`, { status: { phase: "On" } })).code).toBe(200);
  expect(main.seen.map(({ operation }) => operation)).toEqual(["CREATE"]);
  expect(
    status.seen.map((observed) => [observed.subResource, observed.requestSubResource]),
  ).toEqual([["status", "status"]]);
  expect(both.seen).toHaveLength(2);
});

test("reviews only a Scale, a Binding and an Eviction with their own kinds", async () => {
  const pods = "/api/v1/namespaces/default/pods";
  await using hook = await startRecorder(api, {
    type: "Validating",
    webhook: rulesFor(["pods/*", "serviceaccounts/token"]),
  });
  const spec = { containers: [{ name: "c", image: "i" }], automountServiceAccountToken: false };
  await api.post("/api/v1/namespaces/default/serviceaccounts", { metadata: { name: "default" } });
  await api.post(pods, { metadata: { name: "p" }, spec });
  await api.post(`${pods}/p/binding`, { metadata: { name: "p" }, target: { name: "n" } });
  await api.post(`${pods}/p/eviction`, {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name: "p", namespace: "default" },
    deleteOptions: { gracePeriodSeconds: 0 },
  });
  await api.post("/api/v1/namespaces/default/serviceaccounts/default/token", {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: { audiences: [], expirationSeconds: 600 },
  });
  expect(
    hook.seen.map(({ operation, subResource, kind, object }) => [
      operation,
      subResource,
      `${kind.group}/${kind.version} ${kind.kind}`,
      object.kind,
    ]),
  ).toEqual([
    ["CREATE", undefined, "/v1 Pod", "Pod"],
    ["CREATE", "binding", "/v1 Binding", "Binding"],
    ["CREATE", "eviction", "policy/v1 Eviction", "Eviction"],
    ["CREATE", "token", "authentication.k8s.io/v1 TokenRequest", "TokenRequest"],
  ]);
});

test("reviews a pod connection before anything else", async () => {
  await using hook = await startRecorder(api, {
    type: "Validating",
    webhook: rulesFor(["pods/exec"], { operations: ["CONNECT"] }),
  });
  const path = "/api/v1/namespaces/default/pods/absent/exec?command=ls&command=-l&stdout=true";
  expect((await api.post(path, undefined)).code).toBe(404);
  expect(hook.seen).toMatchObject([
    {
      operation: "CONNECT",
      kind: { group: "", version: "v1", kind: "PodExecOptions" },
      resource: { resource: "pods" },
      subResource: "exec",
      name: "absent",
      namespace: "default",
      object: { kind: "PodExecOptions", apiVersion: "v1", command: ["ls", "-l"], stdout: true },
      oldObject: null,
      options: null,
    },
  ]);
});

test("the scale of a custom resource is an autoscaling/v1 Scale, old and new", async () => {
  const definition = widgetDefinition("scaled.test.io", {
    type: "object",
    "x-kubernetes-preserve-unknown-fields": true,
  });
  const [version] = definition.spec.versions;
  Object.assign(version?.subresources ?? {}, {
    scale: { specReplicasPath: ".spec.replicas", statusReplicasPath: ".status.replicas" },
  });
  await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
  const path = "/apis/scaled.test.io/v1/namespaces/default/widgets";
  const widget = { apiVersion: "scaled.test.io/v1", kind: "Widget", metadata: { name: "w" } };
  await api.post(path, { ...widget, spec: { replicas: 1 } });
  await using hook = await startRecorder(api, {
    type: "Mutating",
    webhook: rulesFor(["widgets", "widgets/scale"]),
  });
  await api.patch(`${path}/w/scale`, { spec: { replicas: 3 } });
  expect(hook.seen).toMatchObject([
    {
      operation: "UPDATE",
      kind: { group: "autoscaling", version: "v1", kind: "Scale" },
      resource: { group: "scaled.test.io", version: "v1", resource: "widgets" },
      subResource: "scale",
      object: { kind: "Scale", spec: { replicas: 3 } },
      oldObject: { kind: "Scale", spec: { replicas: 1 } },
    },
  ]);
});

test("a namespace belongs to itself and is selected by its current or new labels", async () => {
  await using hook = await startRecorder(api, {
    type: "Validating",
    webhook: {
      ...rulesFor(["namespaces", "configmaps"], { scope: "*" }),
      namespaceSelector: { matchLabels: { watched: "yes" } },
    },
  });
  const namespace = (name: string, labels: object) => ({ metadata: { name, labels } });
  await api.post("/api/v1/namespaces", namespace("plain", {}));
  await api.post("/api/v1/namespaces", namespace("watched", { watched: "yes" }));
  await api.post("/api/v1/namespaces/plain/configmaps", aMap("unseen"));
  await api.post("/api/v1/namespaces/watched/configmaps", aMap("seen"));
  await api.delete("/api/v1/namespaces/watched");
  const reported = () =>
    hook.seen.map(({ operation, kind, name, namespace: at }) =>
      [operation, kind.kind, name, at].join(" "),
    );
  expect(reported().slice(0, 3)).toEqual([
    "CREATE Namespace watched watched",
    "CREATE ConfigMap seen watched",
    "DELETE Namespace watched watched",
  ]);
  const requested = () => reported().includes("DELETE ConfigMap seen watched");
  await eventually(requested, { withinMs: 5000 });
});

test("objectSelector matches either state, scope matches where the resource lives", async () => {
  await using labelled = await startRecorder(api, {
    type: "Validating",
    name: "labelled",
    webhook: { objectSelector: { matchLabels: { guarded: "1" } } },
  });
  await using clusterwide = await startRecorder(api, {
    type: "Validating",
    name: "clusterwide",
    webhook: rulesFor(["configmaps", "namespaces"], { scope: "Cluster" }),
  });
  await api.post(MAPS, aMap("m"));
  await api.patch(`${MAPS}/m`, { metadata: { labels: { guarded: "1" } } });
  await api.patch(`${MAPS}/m`, { metadata: { labels: { guarded: null } } });
  await api.patch(`${MAPS}/m`, { data: { a: "2" } });
  await api.post("/api/v1/namespaces", { metadata: { name: "made" } });
  expect(labelled.seen).toHaveLength(2);
  expect(clusterwide.seen.map(({ kind }) => kind.kind)).toEqual(["Namespace"]);
});

test("matchPolicy Equivalent converts to the rule's version, Exact requires that version", async () => {
  const definition = widgetDefinition("versions.test.io");
  const [first] = definition.spec.versions;
  const versions = [first, { ...first, name: "v2", storage: false }];
  await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
    ...definition,
    spec: { ...definition.spec, versions },
  });
  const v2Only = rulesFor(["widgets"], { apiVersions: ["v2"] });
  await using equivalent = await startRecorder(api, {
    type: "Mutating",
    name: "equivalent",
    webhook: { ...v2Only, matchPolicy: "Equivalent" },
  });
  await using exact = await startRecorder(api, {
    type: "Mutating",
    name: "exact",
    webhook: { ...v2Only, matchPolicy: "Exact" },
  });
  const path = "/apis/versions.test.io/v1/namespaces/default/widgets";
  const widget = { apiVersion: "versions.test.io/v1", kind: "Widget", metadata: { name: "w" } };
  expect((await api.post(path, widget)).body.apiVersion).toBe("versions.test.io/v1");
  expect(exact.seen).toHaveLength(0);
  expect(equivalent.seen).toMatchObject([
    {
      kind: { version: "v2" },
      resource: { version: "v2" },
      requestKind: { version: "v1" },
      requestResource: { version: "v1" },
      object: { apiVersion: "versions.test.io/v2" },
    },
  ]);
});

test("an impersonated user includes uid and extra", async () => {
  await using hook = await startRecorder(api, { type: "Validating", webhook: {} });
  await api.ask("POST", MAPS, {
    body: aMap("for-another"),
    headers: {
      "impersonate-user": "ann",
      "impersonate-group": "system:masters",
      "impersonate-uid": "u-1",
      "impersonate-extra-scopes": "view",
    },
  });
  expect(hook.seen[0]?.userInfo).toMatchObject({
    username: "ann",
    uid: "u-1",
    extra: { scopes: ["view"] },
  });
});

test("never reviews configurations, which apply as soon as they are written", async () => {
  await using hook = await startRecorder(api, { type: "Validating", webhook: rulesFor(["*/*"]) });
  const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook";
  await api.post(MAPS, aMap("asked"));
  await api.delete(path);
  await api.post(MAPS, aMap("unasked"));
  expect(hook.seen.map(({ name }) => name)).toEqual(["asked"]);
});

function condition(expression: string) {
  return { matchConditions: [{ name: "wanted", expression }] };
}

test("calls a webhook only when its match conditions match", async () => {
  const webhook = condition("object != null && object.data.a == '2'");
  await using mutating = await startRecorder(api, { type: "Mutating", name: "m", webhook });
  await using validating = await startRecorder(api, { type: "Validating", name: "v", webhook });
  await api.post(MAPS, aMap("chosen"));
  await api.patch(`${MAPS}/chosen`, { data: { a: "2" } });
  await api.delete(`${MAPS}/chosen`);
  for (const { seen: observed } of [mutating, validating]) {
    expect(observed.map(({ operation }) => operation)).toEqual(["UPDATE"]);
  }
});

test.each([
  { failurePolicy: "Fail", code: 403 },
  { failurePolicy: "Ignore", code: 201 },
])(
  "a condition that cannot be evaluated is $code with $failurePolicy",
  async ({ failurePolicy, code }) => {
    const webhook = { ...condition("object.data.none == '1'"), failurePolicy };
    await using hook = await startRecorder(api, { type: "Validating", webhook });
    const answer = await api.post(MAPS, aMap("untold"));
    expect(answer.code).toBe(code);
    expect(hook.seen).toEqual([]);
  },
);
