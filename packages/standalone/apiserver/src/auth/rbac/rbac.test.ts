// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import type { Address, KubeObject } from "../../objects/object.ts";
import { openStore } from "../../storage/sqlite-store.ts";
import type { Store } from "../../storage/store.ts";
import type { AccessAttributes, AccessDecision, Authorizer } from "../authorizer.ts";
import type { User } from "../user.ts";
import { makeRbac } from "./rbac.ts";

const RBAC = "rbac.authorization.k8s.io";
const RULES = [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }];
const JANE: User = { name: "jane", groups: ["devs", "system:authenticated"] };

let store: Store;
let rbac: Authorizer;

beforeEach(() => {
  store = openStore(":memory:", (error) => {
    throw error;
  });
  rbac = makeRbac(store);
});

afterEach(async () => {
  await store.close();
});

function addressOf(path: string, name: string): Address {
  const [resource = "", namespace = ""] = path.split("/").toReversed();
  return { bucket: `${RBAC}/${resource}`, namespace, name };
}

/** `resource`: with the namespace before it, where there is one. */
async function put(resource: string, name: string, fields: Fields): Promise<void> {
  const address = addressOf(resource, name);
  const object: KubeObject = { apiVersion: `${RBAC}/v1`, kind: "", metadata: { name }, ...fields };
  await store.write((transaction) => {
    transaction.put(address, object);
  });
}

async function remove(resource: string, name: string): Promise<void> {
  const address = addressOf(resource, name);
  await store.write((transaction) => {
    const stored = transaction.find(address);
    if (stored !== undefined) transaction.remove(address, stored.copy());
  });
}

function binding(kind: string, name: string, ...subjects: readonly Fields[]): Fields {
  return { roleRef: { apiGroup: RBAC, kind, name }, subjects };
}

const user = (name: string): Fields => ({ kind: "User", name });

function ask(who: User, change: Partial<AccessAttributes> = {}): AccessDecision {
  const pods = { verb: "get", group: "", version: "v1", resource: "pods", subresource: "" };
  return rbac.authorize(who, { ...pods, namespace: "default", name: "p", path: "", ...change });
}

const clusterRole = (): Promise<void> => put("clusterroles", "reader", { rules: RULES });

describe("subjects of a binding", () => {
  test.each<{ name: string; subject: Fields; who: User; want: string }>([
    { name: "a user", subject: user("jane"), who: JANE, want: 'User "jane"' },
    {
      name: "a group",
      subject: { kind: "Group", name: "devs" },
      who: JANE,
      want: 'Group "devs"',
    },
    {
      name: "an account of another namespace",
      subject: { kind: "ServiceAccount", name: "bot", namespace: "ci" },
      who: { name: "system:serviceaccount:ci:bot", groups: [] },
      want: 'ServiceAccount "bot/ci"',
    },
    {
      name: "an account of the binding's namespace",
      subject: { kind: "ServiceAccount", name: "bot" },
      who: { name: "system:serviceaccount:default:bot", groups: [] },
      want: 'ServiceAccount "bot/default"',
    },
  ])("$name is allowed, with the reason", async ({ subject, who, want }) => {
    await clusterRole();
    await put("default/rolebindings", "b", binding("ClusterRole", "reader", subject));
    expect(ask(who)).toEqual({
      allowed: true,
      reason: `RBAC: allowed by RoleBinding "b/default" of ClusterRole "reader" to ${want}`,
    });
    expect(ask({ name: "other", groups: [] })).toEqual({ allowed: false, reason: "" });
    expect(ask(who, { namespace: "other" }).allowed).toBe(false);
    expect(ask(who, { namespace: "" }).allowed).toBe(false);
  });

  test.each([
    { name: "a user with the name of a group", subject: user("devs") },
    { name: "a group with the name of the user", subject: { kind: "Group", name: "jane" } },
  ])("does not match $name", async ({ subject }) => {
    await clusterRole();
    await put("clusterrolebindings", "b", binding("ClusterRole", "reader", subject));
    expect(ask(JANE).allowed).toBe(false);
  });

  test("a cluster role binding applies in each namespace, and to paths", async () => {
    const rules = [...RULES, { nonResourceURLs: ["/metrics"], verbs: ["get"] }];
    await put("clusterroles", "reader", { rules });
    await put("clusterrolebindings", "b", binding("ClusterRole", "reader", user("jane")));
    const reason = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to User "jane"';
    for (const namespace of ["", "default", "other"]) {
      expect(ask(JANE, { namespace })).toEqual({ allowed: true, reason });
    }
    expect(ask(JANE, { path: "/metrics", resource: "" }).allowed).toBe(true);
    expect(ask(JANE, { path: "/other", resource: "" }).allowed).toBe(false);
  });

  test("a role binding does not apply to paths", async () => {
    const rules = [{ nonResourceURLs: ["/metrics"], verbs: ["get"] }];
    await put("clusterroles", "reader", { rules });
    await put("default/rolebindings", "b", binding("ClusterRole", "reader", user("jane")));
    expect(ask(JANE, { path: "/metrics", resource: "" }).allowed).toBe(false);
  });

  test("a role is resolved in the binding's namespace", async () => {
    await put("default/roles", "reader", { rules: RULES });
    await put("default/rolebindings", "b", binding("Role", "reader", user("jane")));
    await put("other/rolebindings", "b", binding("Role", "reader", user("jane")));
    expect(ask(JANE).allowed).toBe(true);
    expect(ask(JANE, { namespace: "other" })).toEqual({
      allowed: false,
      reason: 'RBAC: role.rbac.authorization.k8s.io "reader" not found',
    });
  });

  test("members of system:masters may do everything without a role", () => {
    const master = { name: "root", groups: ["system:masters"] };
    expect(ask(master, { verb: "delete" })).toEqual({ allowed: true, reason: "" });
  });
});

describe("missing roles", () => {
  const missing = 'clusterrole.rbac.authorization.k8s.io "gone" not found';

  test("are named once", async () => {
    await put("clusterrolebindings", "a", binding("ClusterRole", "gone", user("jane")));
    await put("clusterrolebindings", "b", binding("ClusterRole", "gone", user("jane")));
    expect(ask(JANE).reason).toBe(`RBAC: ${missing}`);
    await put("clusterrolebindings", "c", binding("ClusterRole", "lost", user("jane")));
    expect(ask(JANE).reason).toBe(
      `RBAC: [${missing}, clusterrole.rbac.authorization.k8s.io "lost" not found]`,
    );
    expect(rbac.listUserRules(JANE, "").errors).toHaveLength(3);
  });

  test("do not hide permissions from another role", async () => {
    await clusterRole();
    await put("clusterrolebindings", "a", binding("ClusterRole", "gone", user("jane")));
    await put("clusterrolebindings", "b", binding("ClusterRole", "reader", user("jane")));
    expect(ask(JANE).allowed).toBe(true);
    expect(rbac.listUserRules(JANE, "default")).toMatchObject({
      rules: [{ resources: ["pods"] }],
      errors: [missing],
    });
  });
});

describe("the next request observes", () => {
  beforeEach(async () => {
    await clusterRole();
    await put("clusterrolebindings", "b", binding("ClusterRole", "reader", user("jane")));
  });

  test.each<{ name: string; change: () => Promise<void> }>([
    { name: "a deleted binding", change: () => remove("clusterrolebindings", "b") },
    { name: "a deleted role", change: () => remove("clusterroles", "reader") },
    {
      name: "a binding with another subject",
      change: () => put("clusterrolebindings", "b", binding("ClusterRole", "reader", user("joe"))),
    },
    {
      name: "a role with other rules",
      change: () =>
        put("clusterroles", "reader", { rules: [{ ...RULES[0], resources: ["secrets"] }] }),
    },
  ])("$name", async ({ change }) => {
    expect(ask(JANE).allowed).toBe(true);
    await change();
    expect(ask(JANE).allowed).toBe(false);
  });

  test("the remaining one of two bindings of a subject", async () => {
    await put("clusterrolebindings", "c", binding("ClusterRole", "reader", user("jane")));
    await remove("clusterrolebindings", "b");
    expect(ask(JANE).reason).toContain('ClusterRoleBinding "c"');
  });

  test("no objects of other kinds", async () => {
    const address = { bucket: "/configmaps", namespace: "default", name: "b" };
    await store.write((transaction) => {
      transaction.put(address, { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "b" } });
    });
    expect(ask(JANE).allowed).toBe(true);
  });
});

test("loads existing roles and bindings at startup", async () => {
  await clusterRole();
  await put("clusterrolebindings", "b", binding("ClusterRole", "reader", user("jane")));
  rbac = makeRbac(store);
  expect(ask(JANE).allowed).toBe(true);
  const roleRef = { apiGroup: RBAC, kind: "ClusterRole", name: "reader" };
  expect(rbac.listRoleRules(roleRef, "any")).toMatchObject([{ resources: ["pods"] }]);
  expect(rbac.listRoleRules({ ...roleRef, kind: "Role" }, "any")).toBeUndefined();
});

test("sorts reported bindings by name", async () => {
  await clusterRole();
  for (const name of ["b", "a", "c"]) {
    await put("clusterrolebindings", name, binding("ClusterRole", "reader", user("jane")));
  }
  expect(ask(JANE).reason).toContain('ClusterRoleBinding "a"');
});
