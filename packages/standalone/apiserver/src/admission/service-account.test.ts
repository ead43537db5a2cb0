// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { type Answer, type TestServer, runTurns, startTestServer } from "../testing/test-server.ts";
import { addTokenVolume } from "./service-account.ts";

const SPEC = { containers: [{ name: "c", image: "i" }], automountServiceAccountToken: false };

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(async () => {
  await server.close();
});

async function putAccount(name: string, fields: Fields = {}, namespace = "default"): Promise<void> {
  await server.put("serviceaccounts", {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, namespace, uid: `uid-${name}` },
    ...fields,
  });
}

function create(spec: Fields, namespace = "default"): Promise<Answer> {
  const body = { metadata: { name: "p" }, spec: { ...SPEC, ...spec } };
  return server.send("POST", `/api/v1/namespaces/${namespace}/pods`, { body });
}

describe("the service account of a pod", () => {
  test.each([
    { name: "the default service account", spec: {}, want: "default" },
    { name: "the account in serviceAccountName", spec: { serviceAccountName: "bot" }, want: "bot" },
    {
      name: "the account in the deprecated field serviceAccount",
      spec: { serviceAccount: "bot" },
      want: "bot",
    },
  ])("is $name", async ({ spec, want }) => {
    await putAccount("bot");
    expect(await create(spec)).toMatchObject({
      code: 201,
      body: { spec: { serviceAccountName: want, serviceAccount: want } },
    });
  });

  test("must exist, otherwise the pod is rejected with 403 at once", async () => {
    await putAccount("bot", {}, "other");
    expect(await create({ serviceAccountName: "bot" })).toMatchObject({
      code: 403,
      body: {
        message:
          'pods "p" is forbidden: error looking up service account default/bot: serviceaccount "bot" not found',
      },
    });
  });
});

describe("a pod in a namespace without a default service account", () => {
  beforeEach(async () => {
    await server.put("namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "new", uid: "uid-new" },
      status: { phase: "Active" },
    });
  });

  test("waits for the account", async () => {
    const answer = create({}, "new");
    await runTurns();
    await putAccount("bot", {}, "new");
    await runTurns();
    await putAccount("default", {}, "new");
    expect((await answer).code).toBe(201);
  });

  test("is rejected after a second", async () => {
    const answer = create({}, "new");
    await runTurns();
    await server.clock.advance(999);
    await runTurns();
    await server.clock.advance(1);
    expect(await answer).toMatchObject({
      code: 403,
      body: { message: expect.stringContaining("account new/default") as string },
    });
  });
});

describe("image pull secrets of a service account", () => {
  const secrets = [{ name: "registry" }];

  test.each([
    { name: "are the pod's", own: [], of: secrets, want: secrets },
    { name: "are not added to its own", own: [{ name: "a" }], of: secrets, want: [{ name: "a" }] },
    { name: "need not exist", own: undefined, of: [], want: undefined },
  ])("$name", async ({ own, of, want }) => {
    await putAccount("bot", { imagePullSecrets: of });
    const spec = { serviceAccountName: "bot", ...(own && { imagePullSecrets: own }) };
    const { body } = await create(spec);
    expect((body["spec"] as Fields)["imagePullSecrets"]).toEqual(want);
  });
});

test("updates and other kinds get no service account", async () => {
  await create({});
  const path = "/api/v1/namespaces/default";
  await server.send("PATCH", `${path}/pods/p`, { body: { metadata: { labels: { a: "b" } } } });
  expect(server.stored("pods", "p")).toMatchObject({ spec: { serviceAccountName: "default" } });
  const template = { metadata: { labels: { a: "b" } }, spec: SPEC };
  const body = {
    metadata: { name: "r" },
    spec: { selector: { matchLabels: { a: "b" } }, template },
  };
  await server.send("POST", "/apis/apps/v1/namespaces/default/replicasets", { body });
  expect(JSON.stringify(server.stored("apps/replicasets", "r"))).not.toContain("serviceAccount");
});

const AT = "/var/run/secrets/kubernetes.io/serviceaccount";
const MOUNT = { name: "kube-api-access-abcde", readOnly: true, mountPath: AT };
const VOLUME = {
  name: "kube-api-access-abcde",
  projected: {
    defaultMode: 420,
    sources: [
      { serviceAccountToken: { expirationSeconds: 3607, path: "token" } },
      { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
      {
        downwardAPI: {
          items: [
            { path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } },
          ],
        },
      },
    ],
  },
};

function given(spec: Fields, account: Fields = {}): Fields {
  addTokenVolume(spec, account, () => "abcde");
  return spec;
}

test("all containers of a pod mount the token, the CA and the namespace", () => {
  const spec = given({
    initContainers: [{ name: "first" }],
    containers: [{ name: "main", volumeMounts: [{ name: "x", mountPath: "/x" }] }],
    volumes: [{ name: "x", emptyDir: {} }],
  });
  expect(spec).toEqual({
    initContainers: [{ name: "first", volumeMounts: [MOUNT] }],
    containers: [{ name: "main", volumeMounts: [{ name: "x", mountPath: "/x" }, MOUNT] }],
    volumes: [{ name: "x", emptyDir: {} }, VOLUME],
  });
});

test.each([
  {
    name: "the pod disables the token mount",
    spec: { automountServiceAccountToken: false },
    account: { automountServiceAccountToken: true },
  },
  {
    name: "its service account disables the token mount",
    spec: {},
    account: { automountServiceAccountToken: false },
  },
])("adds no mount where $name", ({ spec, account }) => {
  const whole = { ...spec, containers: [{ name: "main" }] };
  expect(given(structuredClone(whole), account)).toEqual(whole);
});

test("a pod can request the mount although its account disables it", () => {
  const spec = given(
    { automountServiceAccountToken: true, containers: [{ name: "main" }] },
    { automountServiceAccountToken: false },
  );
  expect(spec["volumes"]).toEqual([VOLUME]);
});

test("retains an existing mount and an existing volume for the token", () => {
  const own = { name: "mine", mountPath: AT };
  const full = { containers: [{ name: "main", volumeMounts: [own] }] };
  expect(given(structuredClone(full))).toEqual(full);
  const volumes = [{ name: "kube-api-access-zzzzz", emptyDir: {} }];
  const spec = given({ containers: [{ name: "main" }], volumes });
  expect(spec["volumes"]).toEqual(volumes);
  expect(spec["containers"]).toEqual([
    { name: "main", volumeMounts: [{ ...MOUNT, name: "kube-api-access-zzzzz" }] },
  ]);
});
