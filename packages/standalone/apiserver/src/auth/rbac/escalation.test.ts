// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import type { KubeObject, Meta } from "../../objects/object.ts";
import {
  type AccessAttributes,
  type Authorizer,
  type UserRules,
  type RoleRef,
  parseRules,
} from "../authorizer.ts";
import type { User } from "../user.ts";
import { type RoleWrite, checkEscalation } from "./escalation.ts";

const RBAC = "rbac.authorization.k8s.io";
const JANE: User = { name: "jane", groups: ["devs"] };
const READ = { apiGroups: [""], resources: ["pods"], verbs: ["get"] };
const WRITE = { apiGroups: [""], resources: ["pods"], verbs: ["get", "delete"] };
const ALL = [
  { apiGroups: ["*"], resources: ["*"], verbs: ["*"] },
  { nonResourceURLs: ["*"], verbs: ["*"] },
];

/** Holds some rules, knows one role, and may do what `allows` says. */
class FakeAuthorizer implements Authorizer {
  readonly asked: AccessAttributes[] = [];
  readonly #held: UserRules;
  readonly #role: readonly Fields[] | undefined;
  readonly #allowed: string;

  constructor(held: readonly Fields[], role?: readonly Fields[], allowed = "") {
    this.#held = { rules: parseRules(held), errors: [] };
    this.#role = role;
    this.#allowed = allowed;
  }

  readonly authorize: Authorizer["authorize"] = (_user, attributes) => {
    this.asked.push(attributes);
    return { allowed: attributes.verb === this.#allowed, reason: "" };
  };

  listUserRules(): UserRules {
    return this.#held;
  }

  listRoleRules({ name }: RoleRef): ReturnType<Authorizer["listRoleRules"]> {
    return name === "known" ? parseRules(this.#role) : undefined;
  }
}

function objectWith(fields: Fields, meta: Partial<Meta> = {}): KubeObject {
  return { apiVersion: `${RBAC}/v1`, kind: "Role", metadata: { name: "r", ...meta }, ...fields };
}

function grantOf(resource: string, fields: Fields, change: Partial<RoleWrite> = {}): RoleWrite {
  const kind = { group: RBAC, version: "v1", resource };
  const object = objectWith(fields);
  return { kind, namespace: "default", user: JANE, object, oldObject: undefined, ...change };
}

const bindingTo = (name: string, kind = "ClusterRole"): Fields => ({
  roleRef: { apiGroup: RBAC, kind, name },
});

describe("writing a role", () => {
  test.each<{ name: string; held: readonly Fields[]; fields: Fields }>([
    { name: "permissions that the writer holds", held: [WRITE], fields: { rules: [READ] } },
    { name: "nothing", held: [], fields: { rules: [] } },
    { name: "no permissions and no aggregation", held: [], fields: { aggregationRule: null } },
    {
      name: "an aggregation if the writer holds all permissions",
      held: ALL,
      fields: { aggregationRule: {} },
    },
  ])("may grant $name", ({ held, fields }) => {
    expect(() => {
      checkEscalation(grantOf("roles", fields), new FakeAuthorizer(held));
    }).not.toThrow();
  });

  test("may not grant more, and the error names the missing permissions", () => {
    const check = (): void => {
      checkEscalation(grantOf("roles", { rules: [WRITE] }), new FakeAuthorizer([READ]));
    };
    expect(check).toThrow(
      expect.objectContaining({
        code: 403,
        message:
          'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["devs"]) is attempting to grant RBAC permissions not currently held:\n' +
          '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
      }),
    );
  });

  test.each([
    { name: "resources", held: [ALL[0] ?? {}] },
    { name: "paths", held: [ALL[1] ?? {}] },
  ])("may not aggregate when the writer holds all $name only", ({ held }) => {
    const check = (): void => {
      checkEscalation(grantOf("clusterroles", { aggregationRule: {} }), new FakeAuthorizer(held));
    };
    expect(check).toThrow(/must have cluster-admin privileges to use the aggregationRule/);
  });

  test("may grant everything if the writer has the escalate verb", () => {
    const authorizer = new FakeAuthorizer([], [], "escalate");
    const oldObject = objectWith({});
    checkEscalation(grantOf("roles", { rules: ALL }, { oldObject }), authorizer);
    checkEscalation(grantOf("roles", { rules: ALL }), authorizer);
    const asked = { verb: "escalate", group: RBAC, version: "v1", resource: "roles" };
    const place = { namespace: "default", subresource: "", path: "" };
    expect(authorizer.asked).toEqual([
      { ...asked, ...place, name: "r" },
      // A new role has no name that a rule could name. Source: Kubernetes policybased storage.
      { ...asked, ...place, name: "" },
    ]);
  });

  test("reports roles that could not be resolved", () => {
    const authorizer = new FakeAuthorizer([]);
    authorizer.listUserRules = () => ({ rules: [], errors: ["a not found", "b not found"] });
    const check = (): void => {
      checkEscalation(grantOf("roles", { rules: [READ] }), authorizer);
    };
    expect(check).toThrow(/\n\{.*\}; resolution errors: \[a not found b not found\]$/);
  });
});

describe("writing a binding", () => {
  test.each(["rolebindings", "clusterrolebindings"])(
    "%s may grant permissions that the writer holds",
    (resource) => {
      const authorizer = new FakeAuthorizer([READ], [READ]);
      expect(() => {
        checkEscalation(grantOf(resource, bindingTo("known")), authorizer);
      }).not.toThrow();
    },
  );

  test.each([
    { kind: "Role", resource: "roles" },
    { kind: "ClusterRole", resource: "clusterroles" },
  ])("may not grant more of a $kind unless the writer has the bind verb", ({ kind, resource }) => {
    const grant = grantOf("rolebindings", bindingTo("known", kind));
    expect(() => {
      checkEscalation(grant, new FakeAuthorizer([READ], [WRITE]));
    }).toThrow(/permissions not currently held/);
    const binder = new FakeAuthorizer([], [WRITE], "bind");
    checkEscalation(grant, binder);
    expect(binder.asked).toMatchObject([{ verb: "bind", group: RBAC, resource, name: "known" }]);
  });

  test("to a role that does not exist returns 404", () => {
    const check = (): void => {
      checkEscalation(grantOf("rolebindings", bindingTo("gone")), new FakeAuthorizer([READ]));
    };
    expect(check).toThrow(
      expect.objectContaining({
        code: 404,
        message: 'clusterroles.rbac.authorization.k8s.io "gone" not found',
      }),
    );
  });
});

describe("the escalation check skips", () => {
  const much: Fields = { rules: ALL };

  test.each<{ name: string; change: Partial<RoleWrite> }>([
    { name: "masters", change: { user: { name: "root", groups: ["system:masters"] } } },
    {
      name: "objects of other groups",
      change: { kind: { group: "x.io", version: "v1", resource: "roles" } },
    },
    {
      name: "owner and finalizer updates",
      change: {
        object: objectWith(much, {
          resourceVersion: "2",
          finalizers: ["a/b"],
          ownerReferences: [],
          managedFields: [],
        }),
        oldObject: objectWith(much, { resourceVersion: "1" }),
      },
    },
  ])("$name", ({ change }) => {
    const authorizer = new FakeAuthorizer([]);
    expect(() => {
      checkEscalation(grantOf("roles", much, change), authorizer);
    }).not.toThrow();
    expect(authorizer.asked).toEqual([]);
  });

  test.each<{ name: string; before: KubeObject }>([
    { name: "labels", before: objectWith(much, { labels: { a: "b" } }) },
    { name: "rules", before: objectWith({ rules: [READ] }) },
  ])("except a change of $name", ({ before }) => {
    const grant = grantOf("roles", much, { oldObject: before });
    expect(() => {
      checkEscalation(grant, new FakeAuthorizer([]));
    }).toThrow(/permissions not currently held/);
  });
});
