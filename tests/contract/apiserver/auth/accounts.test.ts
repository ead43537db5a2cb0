// SPDX-License-Identifier: Apache-2.0
// Service accounts, their tokens, and access reviews, compared with Kubernetes.
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSigningKey } from "@patchbay/pki";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type Body, type Harness, startHarness } from "../harness.ts";

const ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts";
const PODS = "/api/v1/namespaces/default/pods";
const SECRETS = "/api/v1/namespaces/default/secrets";
const MAPS = "/api/v1/namespaces/default/configmaps";
const ISSUER = "https://kubernetes.default.svc.cluster.local";
const NAME = "system:serviceaccount:default:";
const TIMEOUT = { withinMs: 5000 };

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

async function newAccount(name: string): Promise<Body> {
  return (await api.post(ACCOUNTS, { metadata: { name } })).body;
}

function newPod(name: string, spec: object = {}): Promise<Answer> {
  const containers = [{ name: "c", image: "i:1" }];
  return api.post(PODS, { metadata: { name }, spec: { containers, ...spec } });
}

function request(account: string, spec: object = {}): Promise<Answer> {
  return api.post(`${ACCOUNTS}/${account}/token`, { spec });
}

async function tokenOf(account: string, spec: object = {}): Promise<string> {
  return String((await request(account, spec)).body.status?.["token"]);
}

async function review(token: string, audiences?: readonly string[]) {
  const spec = { token, ...(audiences === undefined ? {} : { audiences }) };
  const path = "/apis/authentication.k8s.io/v1/tokenreviews";
  const { code, body } = await api.post(path, { spec });
  expect(code).toBe(201);
  return body.status;
}

function claimsOf(token: string): unknown {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
}

describe("accounts of a namespace", () => {
  test("a new namespace gets its service account and the server's CA, and both are restored", async () => {
    await api.post("/api/v1/namespaces", { metadata: { name: "fresh" } });
    const account = "/api/v1/namespaces/fresh/serviceaccounts/default";
    const map = "/api/v1/namespaces/fresh/configmaps/kube-root-ca.crt";
    const there = async (path: string) => (await api.get(path)).code === 200;
    expect(await eventually(() => there(account), TIMEOUT)).toBe(true);
    const first = (await api.get(account)).body.metadata.uid;
    await api.delete(account);
    await eventually(() => there(account), TIMEOUT);
    expect((await api.get(account)).body.metadata.uid).not.toBe(first);
    await api.patch(map, { data: { "ca.crt": "other" } });
    const restored = async () =>
      (await api.get(map)).body.data?.["ca.crt"] === api.authority.certPem;
    expect(await eventually(restored, TIMEOUT)).toBe(true);
  });

  test("a pod runs as the default account or as an existing one", async () => {
    const plain = await newPod("plain");
    expect(plain.body.spec).toMatchObject({
      serviceAccountName: "default",
      serviceAccount: "default",
    });
    const { code, body } = await newPod("lost", { serviceAccountName: "nobody" });
    expect([code, body.message]).toEqual([
      403,
      'pods "lost" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found',
    ]);
  });

  test("a pod in a new namespace waits for its account", async () => {
    await api.post("/api/v1/namespaces", { metadata: { name: "young" } });
    const spec = { containers: [{ name: "c", image: "i:1" }] };
    const made = await api.post("/api/v1/namespaces/young/pods", { metadata: { name: "p" }, spec });
    expect(made.code).toBe(201);
  });
});

describe("tokens", () => {
  test("a token states its account, audience and lifetime", async () => {
    const { metadata } = await newAccount("bound");
    const spec = { audiences: ["a", "b"], expirationSeconds: 700 };
    const { code, body } = await request("bound", spec);
    expect(code).toBe(201);
    expect(body).toMatchObject({
      kind: "TokenRequest",
      apiVersion: "authentication.k8s.io/v1",
      metadata: { name: "bound", namespace: "default" },
      spec,
    });
    expect(claimsOf(String(body.status?.["token"]))).toMatchObject({
      iss: ISSUER,
      aud: ["a", "b"],
      sub: `${NAME}bound`,
      "kubernetes.io": {
        namespace: "default",
        serviceaccount: { name: "bound", uid: metadata.uid },
      },
    });
  });

  test("a token is valid only while its account exists", async () => {
    const { metadata } = await newAccount("recreated");
    const token = await tokenOf("recreated");
    expect((await api.ask("GET", MAPS, { token })).body.message).toContain(
      `User "${NAME}recreated"`,
    );
    expect(await review(token)).toEqual({
      authenticated: true,
      user: {
        username: `${NAME}recreated`,
        uid: metadata.uid,
        groups: [
          "system:serviceaccounts",
          "system:serviceaccounts:default",
          "system:authenticated",
        ],
      },
      audiences: [ISSUER],
    });
    await api.delete(`${ACCOUNTS}/recreated`);
    expect((await api.ask("GET", MAPS, { token })).code).toBe(401);
    await newAccount("recreated");
    expect((await api.ask("GET", MAPS, { token })).code).toBe(401);
  });

  test("rejects a token for another audience", async () => {
    await newAccount("envoy");
    const token = await tokenOf("envoy", { audiences: ["vault"] });
    expect((await api.ask("GET", MAPS, { token })).code).toBe(401);
    expect((await review(token))?.["error"]).toMatch(
      /^\[invalid bearer token, token audiences \["vault"\]/,
    );
    expect(await review(token, ["vault", "x"])).toMatchObject({
      authenticated: true,
      audiences: ["vault"],
    });
  });

  test("a token bound to a pod ends with it", async () => {
    const { body: pod } = await newPod("holder");
    const boundObjectRef = { kind: "Pod", apiVersion: "v1", name: "holder" };
    const token = await tokenOf("default", { boundObjectRef });
    expect(await review(token)).toMatchObject({
      user: {
        extra: {
          "authentication.kubernetes.io/pod-name": ["holder"],
          "authentication.kubernetes.io/pod-uid": [pod.metadata.uid],
        },
      },
    });
    await api.delete(`${PODS}/holder`);
    expect((await api.ask("GET", MAPS, { token })).code).toBe(401);
  });

  test.each([
    {
      name: "with a lifetime that is too short",
      spec: { expirationSeconds: 599 },
      want: [422, "spec.expirationSeconds"],
    },
    {
      name: "bound to a missing object",
      spec: { boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "none" } },
      want: [404, 'pods "none" not found'],
    },
    {
      name: "bound to a pod of another account",
      spec: { boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "plain" } },
      want: [400, "different serviceaccount name"],
    },
    {
      name: "bound to a map",
      spec: { boundObjectRef: { kind: "ConfigMap", apiVersion: "v1", name: "m" } },
      want: [400, "cannot bind token to object of type /v1, Kind=ConfigMap"],
    },
  ])("issues no token $name", async ({ spec, want }) => {
    await newAccount("asker");
    const { code, body } = await request("asker", spec);
    expect([code, body.message]).toEqual([want[0], expect.stringContaining(String(want[1]))]);
  });

  test("rejects a token that another key signed, and a modified one", async () => {
    const other = await startHarness();
    const { body } = await other.post(`${ACCOUNTS}/default/token`, { spec: {} });
    await other.close();
    const foreign = String(body.status?.["token"]);
    const token = await tokenOf("default");
    const [header = "", , signature = ""] = token.split(".");
    const forged = [header, foreign.split(".")[1], signature].join(".");
    for (const wrong of [foreign, forged, "a.b.c", "none"]) {
      expect((await api.ask("GET", MAPS, { token: wrong })).code).toBe(401);
      expect(await review(wrong)).toEqual({ user: {}, error: "invalid bearer token" });
    }
  });

  test("a token stays valid across server restarts with the same store and key", async () => {
    const directory = await mkdtemp(join(tmpdir(), "apiserver-tokens-"));
    const retained = {
      storePath: join(directory, "store.sqlite"),
      tokenKeyPem: await createSigningKey(),
    };
    const first = await startHarness(retained);
    const { body } = await first.post(`${ACCOUNTS}/default/token`, { spec: {} });
    const token = String(body.status?.["token"]);
    await first.close();
    const second = await startHarness(retained);
    expect((await second.ask("GET", MAPS, { token })).code).toBe(403);
    await second.close();
    const other = await startHarness({ storePath: retained.storePath });
    expect((await other.ask("GET", MAPS, { token })).code).toBe(401);
    await other.close();
    await rm(directory, { recursive: true });
  });

  test("rejects an invalid key", async () => {
    const { privateKey } = generateKeyPairSync("ed25519");
    const other = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    for (const tokenKeyPem of ["none", other]) {
      const started = startHarness({ tokenKeyPem });
      await expect(started).rejects.toMatchObject({ code: "APISERVER_TLS_INVALID" });
    }
  });

  test("fills a secret with a token and deletes it with its account", async () => {
    const { metadata } = await newAccount("keeper");
    const type = "kubernetes.io/service-account-token";
    const refused = await api.post(SECRETS, { metadata: { name: "nameless" }, type });
    expect([refused.code, refused.body.details.causes[0]?.field]).toEqual([
      422,
      "metadata.annotations[kubernetes.io/service-account.name]",
    ]);
    const annotations = { "kubernetes.io/service-account.name": "keeper" };
    await api.post(SECRETS, { metadata: { name: "kept", annotations }, type });
    const filled = async () => {
      const { body } = await api.get(`${SECRETS}/kept`);
      return body.data?.["token"] !== undefined && body;
    };
    const secret = await eventually(filled, TIMEOUT);
    expect(secret.metadata.annotations).toMatchObject({
      "kubernetes.io/service-account.uid": metadata.uid,
    });
    const text = (key: string) => Buffer.from(secret.data?.[key] ?? "", "base64").toString();
    expect([text("namespace"), text("ca.crt")]).toEqual(["default", api.authority.certPem]);
    const token = text("token");
    expect((await api.ask("GET", MAPS, { token })).code).toBe(403);
    await api.delete(`${ACCOUNTS}/keeper`);
    expect((await api.ask("GET", MAPS, { token })).code).toBe(401);
    const gone = async () => (await api.get(`${SECRETS}/kept`)).code === 404;
    expect(await eventually(gone, TIMEOUT)).toBe(true);
  });

  test("publishes the keys for other verifiers", async () => {
    const { text } = await api.get("/openid/v1/jwks");
    expect(JSON.parse(text)).toMatchObject({ keys: [{ kty: "EC", alg: "ES256", use: "sig" }] });
    const configuration = await api.get("/.well-known/openid-configuration");
    expect(configuration.body).toMatchObject({ issuer: ISSUER });
  });
});

describe("access reviews", () => {
  const base = "/apis/authorization.k8s.io/v1";
  const pods = { namespace: "default", verb: "list", resource: "pods" };
  const ask = async (path: string, spec: object) => {
    const { code, body } = await api.post(`${base}/${path}`, { spec });
    return { code, status: body.status, message: body.message };
  };

  test("the reason names binding, role and subject", async () => {
    await api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", {
      metadata: { name: "readers" },
      roleRef: { kind: "ClusterRole", name: "view", apiGroup: "rbac.authorization.k8s.io" },
      subjects: [{ kind: "ServiceAccount", name: "reader" }],
    });
    expect(
      await ask("subjectaccessreviews", { user: `${NAME}reader`, resourceAttributes: pods }),
    ).toMatchObject({
      code: 201,
      status: {
        allowed: true,
        reason:
          'RBAC: allowed by RoleBinding "readers/default" of ClusterRole "view" to ServiceAccount "reader/default"',
      },
    });
  });

  test.each([
    { name: "an unknown user", spec: { user: "x", resourceAttributes: pods }, allowed: false },
    {
      name: "a member of system:masters",
      spec: { user: "x", groups: ["system:masters"], resourceAttributes: pods },
      allowed: true,
    },
    {
      name: "any authenticated user, for a path",
      spec: {
        groups: ["system:authenticated"],
        nonResourceAttributes: { path: "/apis", verb: "get" },
      },
      allowed: true,
    },
    {
      name: "a user without groups, for a path",
      spec: { user: "x", nonResourceAttributes: { path: "/apis", verb: "get" } },
      allowed: false,
    },
  ])("$name: $allowed", async ({ spec, allowed }) => {
    expect(await ask("subjectaccessreviews", spec)).toMatchObject({
      code: 201,
      status: { allowed },
    });
  });

  test.each([
    { name: "nobody", path: "subjectaccessreviews", spec: { resourceAttributes: pods } },
    { name: "nothing", path: "subjectaccessreviews", spec: { user: "x" } },
    { name: "no resource of the user's own", path: "selfsubjectaccessreviews", spec: {} },
    {
      name: "two kinds of attributes",
      path: "selfsubjectaccessreviews",
      spec: { resourceAttributes: pods, nonResourceAttributes: { path: "/", verb: "get" } },
    },
    {
      name: "another namespace",
      path: "namespaces/kube-system/localsubjectaccessreviews",
      spec: { user: "x", resourceAttributes: pods },
    },
  ])("rejects a review of $name", async ({ path, spec }) => {
    expect((await ask(path, spec)).code).toBe(422);
  });

  test("lists the user's own rules for a namespace", async () => {
    const token = await tokenOf("default");
    const path = `${base}/selfsubjectrulesreviews`;
    const none = await api.ask("POST", path, { token, body: { spec: {} } });
    expect([none.code, none.body.message]).toEqual([400, "no namespace on request"]);
    const { body } = await api.ask("POST", path, {
      token,
      body: { spec: { namespace: "default" } },
    });
    expect(body.status?.["incomplete"]).toBe(false);
    expect(body.status?.["resourceRules"]).toContainEqual({
      verbs: ["create"],
      apiGroups: ["authentication.k8s.io"],
      resources: ["selfsubjectreviews"],
    });
    expect(body.status?.["nonResourceRules"]).toContainEqual({
      verbs: ["get"],
      nonResourceURLs: ["/healthz", "/livez", "/readyz", "/version", "/version/"],
    });
  });
});
