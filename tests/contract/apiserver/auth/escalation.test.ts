// SPDX-License-Identifier: Apache-2.0
// Privilege escalation through roles, bindings and impersonation; invalid roles.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type Ask, type Harness, startHarness } from "../harness.ts";
import { requestAs } from "./ask-as.ts";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const LOCAL = `${RBAC}/namespaces/default`;
const MAPS = "/api/v1/namespaces/default/configmaps";
const GROUP = "rbac.authorization.k8s.io";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

function as(user: string, line: string, input?: Ask): Promise<Answer> {
  return requestAs(api, { user, line, ...input });
}

function rule(apiGroup: string, resources: readonly string[], verbs: readonly string[]) {
  return { apiGroups: [apiGroup], resources, verbs };
}

function role(name: string, ...rules: readonly object[]) {
  return { metadata: { name }, rules };
}

function binding(name: string, roleRef: object, subjects: readonly object[] = []) {
  return { metadata: { name }, roleRef: { apiGroup: GROUP, ...roleRef }, subjects };
}

/** A user of the namespace who may write roles and bindings, and holds the rules. */
async function keeper(user: string, ...rules: readonly object[]): Promise<void> {
  const write = rule(GROUP, ["roles", "rolebindings"], ["create", "update", "patch", "get"]);
  await api.post(`${LOCAL}/roles`, role(user, write, ...rules));
  const subject = { kind: "User", name: user };
  await api.post(`${LOCAL}/rolebindings`, binding(user, { kind: "Role", name: user }, [subject]));
}

describe("granting rights", () => {
  test("a role may hold only what its author holds", async () => {
    await keeper("author", rule("", ["configmaps"], ["get", "list"]));
    const held = role("held", rule("", ["configmaps"], ["list"]));
    expect((await as("author", `POST ${LOCAL}/roles`, { body: held })).code).toBe(201);
    const body = role("more", rule("", ["configmaps", "secrets"], ["get", "watch"]));
    const { code, body: refusal } = await as("author", `POST ${LOCAL}/roles`, { body });
    expect(code).toBe(403);
    expect(refusal.message).toBe(
      'roles.rbac.authorization.k8s.io "more" is forbidden: user "author" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n' +
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["watch"]}\n' +
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "watch"]}',
    );
    expect(refusal.details).toEqual({ name: "more", group: GROUP, kind: "roles" });
  });

  test("a patch may not extend a role either", async () => {
    await keeper("grower", rule("", ["configmaps"], ["get"]));
    await api.post(`${LOCAL}/roles`, role("small", rule("", ["configmaps"], ["get"])));
    const rules = [rule("", ["*"], ["*"])];
    const type = "application/merge-patch+json";
    const grown = await as("grower", `PATCH ${LOCAL}/roles/small`, { body: { rules }, type });
    expect(grown.code).toBe(403);
    const labels = { body: { metadata: { labels: { a: "b" } } }, type };
    expect((await as("grower", `PATCH ${LOCAL}/roles/small`, labels)).code).toBe(200);
  });

  test("a binding may grant what its author holds or may bind", async () => {
    await keeper("binder", { ...rule(GROUP, ["clusterroles"], ["bind"]), resourceNames: ["view"] });
    const bind = (name: string) =>
      as("binder", `POST ${LOCAL}/rolebindings`, {
        body: binding(`b-${name}`, { kind: "ClusterRole", name }),
      });
    expect((await bind("view")).code).toBe(201);
    const edit = await bind("edit");
    expect([edit.code, edit.body.message]).toEqual([
      403,
      expect.stringContaining('rolebindings.rbac.authorization.k8s.io "b-edit" is forbidden: user'),
    ]);
    expect((await bind("none")).body).toMatchObject({
      code: 404,
      message: 'clusterroles.rbac.authorization.k8s.io "none" not found',
    });
  });

  test("a user with escalate may write any role", async () => {
    await keeper("escalator", rule(GROUP, ["roles"], ["escalate"]));
    const body = role("any", rule("*", ["*"], ["*"]));
    expect((await as("escalator", `POST ${LOCAL}/roles`, { body })).code).toBe(201);
  });

  test("creating an object by PUT requires the create right", async () => {
    await api.post(`${LOCAL}/roles`, role("putter", rule(GROUP, ["roles"], ["update"])));
    const subjects = [{ kind: "User", name: "putter" }];
    const body = binding("putter", { kind: "Role", name: "putter" }, subjects);
    await api.post(`${LOCAL}/rolebindings`, body);
    const put = await as("putter", `PUT ${LOCAL}/roles/new`, { body: role("new") });
    expect(put.body.message).toContain('User "putter" cannot create resource "roles"');
    expect((await api.put(`${LOCAL}/roles/new`, role("new"))).code).toBe(201);
  });
});

describe("impersonation", () => {
  const impersonate = (resources: readonly string[], names: readonly string[], apiGroup = "") => ({
    ...rule(apiGroup, resources, ["impersonate"]),
    resourceNames: names,
  });

  beforeAll(async () => {
    const rules = [
      impersonate(["users"], ["ann"]),
      impersonate(["groups"], ["friends"]),
      impersonate(["userextras/scopes"], ["dev"], "authentication.k8s.io"),
    ];
    await api.post(`${RBAC}/clusterroles`, role("actor", ...rules));
    const subjects = [{ kind: "User", name: "jane" }];
    const body = binding("actor", { kind: "ClusterRole", name: "actor" }, subjects);
    await api.post(`${RBAC}/clusterrolebindings`, body);
  });

  const review = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews";
  const actAs = (headers: NonNullable<Ask["headers"]>, token = "jane-token") => {
    const [method = "", path = ""] = review.split(" ");
    return api.ask(method, path, { body: {}, token, headers });
  };

  test("impersonates the user with groups and extra", async () => {
    const { code, body } = await actAs({
      "impersonate-user": "ann",
      "impersonate-group": "friends",
      "impersonate-extra-scopes": "dev",
    });
    expect([code, body.status]).toEqual([
      201,
      {
        userInfo: {
          username: "ann",
          groups: ["friends", "system:authenticated"],
          extra: { scopes: ["dev"] },
        },
      },
    ]);
  });

  test.each([
    {
      name: "another user",
      headers: { "impersonate-user": "bob" },
      want: 'users "bob" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope',
    },
    {
      name: "another group",
      headers: { "impersonate-user": "ann", "impersonate-group": ["friends", "system:masters"] },
      want: 'groups "system:masters" is forbidden: User "jane" cannot impersonate resource "groups" in API group "" at the cluster scope',
    },
    {
      name: "another extra",
      headers: { "impersonate-user": "ann", "impersonate-extra-scopes": "prod" },
      want: 'userextras.authentication.k8s.io "prod" is forbidden: User "jane" cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster scope',
    },
    {
      name: "a uid",
      headers: { "impersonate-user": "ann", "impersonate-uid": "1" },
      want: 'uids.authentication.k8s.io "1" is forbidden: User "jane" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope',
    },
    {
      name: "a service account",
      headers: { "impersonate-user": "system:serviceaccount:default:default" },
      want: 'serviceaccounts "default" is forbidden: User "jane" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "default"',
    },
  ])("$name requires its own right", async ({ headers, want }) => {
    const { code, body } = await actAs(headers);
    expect([code, body.message]).toEqual([403, want]);
  });

  test("rejects groups without a user", async () => {
    const { code, text } = await actAs({ "impersonate-group": "friends" });
    expect([code, text]).toEqual([500, expect.stringContaining("without impersonating a user")]);
  });

  test("service accounts include their groups; impersonating foreign groups is rejected", async () => {
    const groupsOf = async (user: string) => {
      const [method = "", path = ""] = review.split(" ");
      const headers = { "impersonate-user": user };
      const { body } = await api.ask(method, path, { body: {}, headers });
      return body.status?.["userInfo"] ?? body.message;
    };
    expect(await groupsOf("system:serviceaccount:a:b")).toMatchObject({
      groups: ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
    });
    expect(await groupsOf("system:anonymous")).toContain('User "system:anonymous" cannot create');
  });
});

describe("roles and bindings", () => {
  const cluster = { kind: "ClusterRole", name: "view" };
  const rows = [
    {
      name: "rules need verbs, groups and resources",
      path: `${LOCAL}/roles`,
      body: role("bad", {}),
      want: ["rules[0].verbs", "rules[0].apiGroups", "rules[0].resources"],
    },
    {
      name: "a namespaced role must not contain paths",
      path: `${LOCAL}/roles`,
      body: role("bad", { verbs: ["get"], nonResourceURLs: ["/x"] }),
      want: ["rules[0].nonResourceURLs"],
    },
    {
      name: "a rule names either paths or resources",
      path: `${RBAC}/clusterroles`,
      body: role("bad", { ...rule("", ["pods"], ["get"]), nonResourceURLs: ["/x"] }),
      want: ["rules[0].nonResourceURLs"],
    },
    {
      name: "an aggregation needs selectors",
      path: `${RBAC}/clusterroles`,
      body: { ...role("bad"), aggregationRule: {} },
      want: ["aggregationRule.clusterRoleSelectors"],
    },
    {
      name: "a binding needs a role of a known kind",
      path: `${LOCAL}/rolebindings`,
      body: binding("bad", { kind: "Rule", apiGroup: "x" }),
      want: ["roleRef.apiGroup", "roleRef.kind", "roleRef.name"],
    },
    {
      name: "a cluster binding needs a cluster role",
      path: `${RBAC}/clusterrolebindings`,
      body: binding("bad", { kind: "Role", name: "r" }),
      want: ["roleRef.kind"],
    },
    {
      name: "subjects are users, groups and accounts with a namespace",
      path: `${RBAC}/clusterrolebindings`,
      body: binding("bad", cluster, [
        { kind: "ServiceAccount", name: "a" },
        { kind: "User", name: "u", apiGroup: "x" },
        { kind: "Robot", name: "r" },
        { kind: "Group" },
      ]),
      want: [
        "subjects[0].namespace",
        "subjects[1].apiGroup",
        "subjects[2].kind",
        "subjects[3].name",
      ],
    },
  ];
  test.each(rows)("$name", async ({ path, body, want }) => {
    const { code, body: refusal } = await api.post(path, body);
    expect([code, refusal.details.causes.map(({ field }) => field)]).toEqual([422, want]);
  });

  test("defaults API groups of references; the role of a binding is immutable", async () => {
    const subjects = [{ kind: "User", name: "u" }];
    const roleRef = { apiGroup: "", ...cluster };
    const path = `${LOCAL}/rolebindings`;
    const { body } = await api.post(path, binding("filled", roleRef, subjects));
    expect(body).toMatchObject({
      roleRef: { apiGroup: GROUP },
      subjects: [{ apiGroup: GROUP, kind: "User", name: "u" }],
    });
    const changed = await api.patch(`${path}/filled`, { roleRef: { name: "edit" } });
    expect([changed.code, changed.body.message]).toEqual([
      422,
      'RoleBinding.rbac.authorization.k8s.io "filled" is invalid: roleRef: Invalid value: rbac.RoleRef{APIGroup:"rbac.authorization.k8s.io", Kind:"ClusterRole", Name:"edit"}: cannot change roleRef',
    ]);
  });

  test("an aggregate follows the roles that it selects", async () => {
    const labels = { "rbac.authorization.k8s.io/aggregate-to-view": "true" };
    const rules = [rule("widgets.test", ["widgets"], ["get"])];
    await api.post(`${RBAC}/clusterroles`, { metadata: { name: "widgets", labels }, rules });
    const knows = async (name: string) =>
      (await api.get(`${RBAC}/clusterroles/${name}`)).text.includes("widgets.test");
    const within = { withinMs: 5000 };
    for (const name of ["view", "edit", "admin"]) {
      expect(await eventually(() => knows(name), within)).toBe(true);
    }
    await api.delete(`${RBAC}/clusterroles/widgets`);
    expect(await eventually(async () => !(await knows("admin")), within)).toBe(true);
  });
});

test("restores default roles unless their owner disables it", async () => {
  const directory = await mkdtemp(join(tmpdir(), "apiserver-roles-"));
  const retained = { storePath: join(directory, "store.sqlite") };
  const first = await startHarness(retained);
  const autoupdate = "rbac.authorization.kubernetes.io/autoupdate";
  const own = [rule("", ["pods"], ["get"])];
  await first.patch(`${RBAC}/clusterroles/system:discovery`, { rules: own });
  const metadata = { annotations: { [autoupdate]: "false" } };
  await first.patch(`${RBAC}/clusterroles/system:basic-user`, { metadata, rules: own });
  await first.delete(`${RBAC}/clusterrolebindings/system:discovery`);
  await first.close();
  const second = await startHarness(retained);
  const rulesOf = async (name: string) =>
    (await second.get(`${RBAC}/clusterroles/${name}`)).body.rules;
  expect(await rulesOf("system:discovery")).toHaveLength(2);
  expect(await rulesOf("system:basic-user")).toEqual(own);
  const bound = await second.get(`${RBAC}/clusterrolebindings/system:discovery`);
  expect(bound.code).toBe(200);
  await second.close();
  await rm(directory, { recursive: true });
});

test("a change of a user's rights applies to the next request", async () => {
  await keeper("changing", rule("", ["configmaps"], ["list"]));
  expect((await as("changing", `GET ${MAPS}`)).code).toBe(200);
  await api.patch(`${LOCAL}/rolebindings/changing`, { subjects: [] });
  expect((await as("changing", `GET ${MAPS}`)).code).toBe(403);
});
