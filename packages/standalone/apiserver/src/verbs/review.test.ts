// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const AUTHORIZATION = "/apis/authorization.k8s.io/v1";
const AUTHENTICATION = "/apis/authentication.k8s.io/v1";
const SAR = `${AUTHORIZATION}/subjectaccessreviews`;
const SELF = `${AUTHORIZATION}/selfsubjectaccessreviews`;
const LOCAL = `${AUTHORIZATION}/namespaces/default/localsubjectaccessreviews`;
const RULES = `${AUTHORIZATION}/selfsubjectrulesreviews`;
const WHO = `${AUTHENTICATION}/selfsubjectreviews`;
const RBAC = "rbac.authorization.k8s.io";

const JANE = {
  name: "jane",
  groups: ["g1"],
  uid: "u1",
  extra: { key: ["v"] },
};

let server: TestServer;

function binding(kind: string, name: string, subject: Fields): Fields {
  return {
    roleRef: { apiGroup: RBAC, kind, name },
    subjects: [{ apiGroup: RBAC, ...subject }],
  };
}

beforeAll(async () => {
  server = await startTestServer();
  await server.put(`${RBAC}/roles`, {
    apiVersion: `${RBAC}/v1`,
    kind: "Role",
    metadata: { name: "reader", namespace: "default" },
    rules: [
      { verbs: ["get"], apiGroups: [""], resources: ["pods", "pods/log"] },
      { verbs: ["update"], apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["d"] },
    ],
  });
  await server.put(`${RBAC}/clusterroles`, {
    apiVersion: `${RBAC}/v1`,
    kind: "ClusterRole",
    metadata: { name: "prober" },
    rules: [{ verbs: ["get"], nonResourceURLs: ["/healthz"] }],
  });
  const head = { apiVersion: `${RBAC}/v1`, kind: "RoleBinding" };
  await server.put(
    `${RBAC}/rolebindings`,
    {
      ...head,
      metadata: { name: "jane", namespace: "default" },
      ...binding("Role", "reader", { kind: "User", name: "jane" }),
    },
    {
      ...head,
      metadata: { name: "lost", namespace: "other" },
      ...binding("Role", "none", { kind: "User", name: "jane" }),
    },
  );
  await server.put(`${RBAC}/clusterrolebindings`, {
    apiVersion: `${RBAC}/v1`,
    kind: "ClusterRoleBinding",
    metadata: { name: "probers" },
    ...binding("ClusterRole", "prober", { kind: "Group", name: "g1" }),
  });
});

beforeEach(() => {
  server.webhooks.recorded.length = 0;
});

afterAll(async () => {
  await server.close();
});

const GET_PODS = { verb: "get", resource: "pods", namespace: "default" };

describe("permissions of a subject", () => {
  test.each([
    {
      name: "a permission of a role",
      path: SAR,
      spec: { user: "jane", resourceAttributes: GET_PODS },
      allowed: true,
    },
    {
      name: "another user",
      path: SAR,
      spec: { user: "joe", resourceAttributes: GET_PODS },
      allowed: false,
    },
    {
      name: "another verb",
      path: SAR,
      spec: { user: "jane", resourceAttributes: { ...GET_PODS, verb: "list" } },
      allowed: false,
    },
    {
      name: "another group of resources",
      path: SAR,
      spec: { user: "jane", resourceAttributes: { ...GET_PODS, group: "apps" } },
      allowed: false,
    },
    {
      name: "another namespace",
      path: SAR,
      spec: { user: "jane", resourceAttributes: { ...GET_PODS, namespace: "blue" } },
      allowed: false,
    },
    {
      name: "a subresource",
      path: SAR,
      spec: { user: "jane", resourceAttributes: { ...GET_PODS, subresource: "log" } },
      allowed: true,
    },
    {
      name: "another subresource",
      path: SAR,
      spec: { user: "jane", resourceAttributes: { ...GET_PODS, subresource: "exec" } },
      allowed: false,
    },
    {
      name: "a name that a role allows",
      path: SAR,
      spec: {
        user: "jane",
        resourceAttributes: {
          verb: "update",
          group: "apps",
          resource: "deployments",
          namespace: "default",
          name: "d",
        },
      },
      allowed: true,
    },
    {
      name: "another name",
      path: SAR,
      spec: {
        user: "jane",
        resourceAttributes: {
          verb: "update",
          group: "apps",
          resource: "deployments",
          namespace: "default",
          name: "e",
        },
      },
      allowed: false,
    },
    {
      name: "a path, by a group",
      path: SAR,
      spec: { groups: ["g1"], nonResourceAttributes: { verb: "get", path: "/healthz" } },
      allowed: true,
    },
    {
      name: "another path",
      path: SAR,
      spec: { groups: ["g1"], nonResourceAttributes: { verb: "get", path: "/metrics" } },
      allowed: false,
    },
    {
      name: "a member of system:masters",
      path: SAR,
      spec: { groups: ["system:masters"], resourceAttributes: GET_PODS },
      allowed: true,
    },
    {
      name: "a permission in one namespace",
      path: LOCAL,
      spec: { user: "jane", resourceAttributes: GET_PODS },
      allowed: true,
    },
    { name: "the caller", path: SELF, spec: { resourceAttributes: GET_PODS }, allowed: true },
    {
      name: "the caller in another namespace",
      path: SELF,
      spec: { resourceAttributes: { ...GET_PODS, namespace: "blue" } },
      allowed: false,
    },
  ])("$name: $allowed", async ({ path, spec, allowed }) => {
    const before = server.deps.store.revision();
    const { code, body } = await server.send("POST", path, { body: { spec }, user: JANE });
    expect([code, (body["status"] as Fields)["allowed"]]).toEqual([201, allowed]);
    expect(server.deps.store.revision()).toBe(before);
  });

  test("the response repeats the review, with a reason if there is one", async () => {
    const spec = { user: "jane", resourceAttributes: GET_PODS };
    const yes = await server.send("POST", SAR, { body: { spec } });
    expect(yes.body).toEqual({
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      metadata: { creationTimestamp: null },
      spec,
      status: { allowed: true, reason: expect.stringMatching(/^RBAC: allowed by /) as string },
    });
    const local = await server.send("POST", LOCAL, { body: { spec: { ...spec, user: "joe" } } });
    expect(local.body).toMatchObject({
      metadata: { namespace: "default", creationTimestamp: null },
      status: { allowed: false },
    });
    expect(local.body["status"]).toEqual({ allowed: false });
  });

  test("the authorizer receives uid, extra and the whole request", async () => {
    const asked: unknown[] = [];
    const own = await startTestServer();
    Object.assign(own.deps, {
      authorizer: {
        ...own.deps.authorizer,
        authorize: (user: unknown, attributes: unknown) => {
          asked.push(user, attributes);
          return { allowed: true, reason: "" };
        },
      },
    });
    const resourceAttributes = {
      verb: "get",
      group: "g",
      version: "v1",
      resource: "rs",
      subresource: "s",
      namespace: "n",
      name: "x",
    };
    await own.send("POST", SAR, {
      body: {
        spec: { user: "joe", groups: ["a"], uid: "7", extra: { Scope: ["r"] }, resourceAttributes },
      },
    });
    await own.send("POST", SAR, {
      body: { spec: { user: "joe", nonResourceAttributes: { verb: "get", path: "/p" } } },
    });
    const empty = {
      group: "",
      version: "",
      resource: "",
      subresource: "",
      namespace: "",
      name: "",
    };
    expect(asked).toEqual([
      { name: "joe", groups: ["a"], uid: "7", extra: { scope: ["r"] } },
      { ...resourceAttributes, path: "" },
      { name: "joe", groups: [], uid: "", extra: {} },
      { ...empty, verb: "get", path: "/p" },
    ]);
    await own.close();
  });
});

describe("rejected reviews", () => {
  const ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified";

  test.each([
    {
      name: "no attributes",
      path: SAR,
      body: { spec: { user: "a" } },
      want: [`spec.resourceAttributes: Invalid value: "null": ${ONE}`],
    },
    {
      name: "both attributes",
      path: SELF,
      body: { spec: { resourceAttributes: GET_PODS, nonResourceAttributes: { path: "/" } } },
      want: [
        'spec.nonResourceAttributes: Invalid value: {"path":"/"}: cannot be specified in combination with resourceAttributes',
      ],
    },
    {
      name: "no user and no groups",
      path: SAR,
      body: { spec: { resourceAttributes: GET_PODS } },
      want: ['spec.user: Invalid value: "": at least one of user or group must be specified'],
    },
    {
      name: "metadata",
      path: SELF,
      body: { metadata: { name: "a" }, spec: { resourceAttributes: GET_PODS } },
      want: ['metadata: Invalid value: {"name":"a"}: must be empty'],
    },
    {
      name: "metadata beside the namespace",
      path: LOCAL,
      body: {
        metadata: { name: "a", namespace: "default" },
        spec: { user: "a", resourceAttributes: GET_PODS },
      },
      want: ['metadata: Invalid value: {"name":"a"}: must be empty except for namespace'],
    },
    {
      name: "a namespace in a cluster-scoped review",
      path: SAR,
      body: {
        metadata: { namespace: "default" },
        spec: { user: "a", resourceAttributes: GET_PODS },
      },
      want: ['metadata: Invalid value: {"namespace":"default"}: must be empty'],
    },
    {
      name: "another namespace of the attributes",
      path: LOCAL,
      body: { spec: { user: "a", resourceAttributes: { ...GET_PODS, namespace: "other" } } },
      want: [
        'spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace',
      ],
    },
    {
      name: "a path in a namespace",
      path: LOCAL,
      body: { spec: { user: "a", nonResourceAttributes: { path: "/" } } },
      want: ["spec.nonResourceAttributes: Forbidden: disallowed on this kind of request"],
    },
  ])("$name: 422", async ({ path, body, want }) => {
    const answer = await server.send("POST", path, { body });
    const causes = answer.body.details.causes ?? [];
    expect([answer.code, causes.map(({ field, message }) => `${field ?? ""}: ${message}`)]).toEqual(
      [422, want],
    );
  });

  test("rejects a namespace other than the path's with 400", async () => {
    const body = {
      metadata: { namespace: "other" },
      spec: { user: "a", resourceAttributes: GET_PODS },
    };
    expect(await server.send("POST", LOCAL, { body })).toMatchObject({
      code: 400,
      body: {
        message:
          "the namespace of the provided object does not match the namespace sent on the request",
      },
    });
  });

  test("accepts the namespace of the path", async () => {
    const body = {
      metadata: { namespace: "default" },
      spec: { user: "a", resourceAttributes: GET_PODS },
    };
    expect((await server.send("POST", LOCAL, { body })).code).toBe(201);
  });
});

describe("rules of the caller", () => {
  test("contain those of roles in the namespace and of the cluster", async () => {
    const body = { spec: { namespace: "default" } };
    const answer = await server.send("POST", RULES, { body, user: JANE });
    expect(answer).toMatchObject({
      code: 201,
      body: { spec: {}, metadata: { creationTimestamp: null } },
    });
    expect(answer.body["status"]).toEqual({
      resourceRules: [
        { verbs: ["get"], apiGroups: [""], resources: ["pods", "pods/log"] },
        {
          verbs: ["update"],
          apiGroups: ["apps"],
          resources: ["deployments"],
          resourceNames: ["d"],
        },
      ],
      nonResourceRules: [{ verbs: ["get"], nonResourceURLs: ["/healthz"] }],
      incomplete: false,
    });
  });

  test("are incomplete if a role is missing", async () => {
    const body = { spec: { namespace: "other" } };
    const answer = await server.send("POST", RULES, { body, user: { name: "jane", groups: [] } });
    expect(answer.body["status"]).toEqual({
      resourceRules: [],
      nonResourceRules: [],
      incomplete: true,
      evaluationError: expect.stringContaining("none") as string,
    });
  });

  test("fail with 400 without a namespace", async () => {
    expect(await server.send("POST", RULES, { body: { spec: {} } })).toMatchObject({
      code: 400,
      body: { message: "no namespace on request" },
    });
  });
});

test("returns the caller's identity", async () => {
  const answer = await server.send("POST", WHO, { body: {}, user: JANE });
  expect([answer.code, answer.body.metadata, answer.body["status"]]).toEqual([
    201,
    { creationTimestamp: "1970-01-01T00:00:00Z" },
    { userInfo: { username: "jane", groups: ["g1"], uid: "u1", extra: { key: ["v"] } } },
  ]);
});
