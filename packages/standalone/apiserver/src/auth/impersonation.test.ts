// SPDX-License-Identifier: Apache-2.0
// For whom a user acts, and which rights that needs.
import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { MissingImpersonatedUser, impersonate } from "./impersonation.ts";
import { type User, serviceAccountGroups, parseServiceAccount } from "./user.ts";
import type { AccessAttributes } from "./authorizer.ts";

const BOB: User = { name: "bob", groups: ["system:authenticated"] };

type Distinct = Readonly<Record<string, readonly string[]>>;

function requestWith(headersDistinct: Distinct): IncomingMessage {
  const headers = Object.fromEntries(
    Object.entries(headersDistinct).map(([key, values]) => [key, values.join(", ")]),
  );
  return { headers, headersDistinct } as unknown as IncomingMessage;
}

function act(headers: Distinct, allows: (attributes: AccessAttributes) => boolean = () => true) {
  const asked: AccessAttributes[] = [];
  const request = requestWith(headers);
  const user = impersonate(request, BOB, (_user, attributes) => {
    asked.push(attributes);
    return { allowed: allows(attributes), reason: "" };
  });
  return {
    user,
    request,
    asked: asked.map(
      (one) => `${one.group}/${one.resource}/${one.subresource} ${one.namespace}/${one.name}`,
    ),
    all: asked,
  };
}

describe("the impersonated user", () => {
  test.each<{ name: string; headers: Distinct; want: User; asked: string[] }>([
    { name: "nobody", headers: { accept: ["x"] }, want: BOB, asked: [] },
    {
      name: "unchanged for an empty user header",
      headers: { "impersonate-user": [""] },
      want: BOB,
      asked: [],
    },
    {
      name: "a user",
      headers: { "impersonate-user": ["eve"] },
      want: { name: "eve", groups: ["system:authenticated"] },
      asked: ["/users/ /eve"],
    },
    {
      name: "a user with groups, uid and more",
      headers: {
        "impersonate-user": ["eve"],
        "impersonate-group": ["g1", "g2"],
        "impersonate-uid": ["u1"],
        "impersonate-extra-a%2fb": ["x", "y"],
        "impersonate-extra-%zz": ["z"],
      },
      want: {
        name: "eve",
        groups: ["g1", "g2", "system:authenticated"],
        uid: "u1",
        extra: { "a/b": ["x", "y"], "%zz": ["z"] },
      },
      asked: [
        "/users/ /eve",
        "/groups/ /g1",
        "/groups/ /g2",
        "authentication.k8s.io/userextras/a/b /x",
        "authentication.k8s.io/userextras/a/b /y",
        "authentication.k8s.io/userextras/%zz /z",
        "authentication.k8s.io/uids/ /u1",
      ],
    },
    {
      name: "a service account",
      headers: { "impersonate-user": ["system:serviceaccount:ns:sa"] },
      want: {
        name: "system:serviceaccount:ns:sa",
        groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
      },
      asked: ["/serviceaccounts/ ns/sa"],
    },
    {
      name: "an account with groups",
      headers: { "impersonate-user": ["system:serviceaccount:ns:sa"], "impersonate-group": ["g"] },
      want: { name: "system:serviceaccount:ns:sa", groups: ["g", "system:authenticated"] },
      asked: ["/serviceaccounts/ ns/sa", "/groups/ /g"],
    },
    {
      name: "an anonymous user",
      headers: { "impersonate-user": ["system:anonymous"] },
      want: { name: "system:anonymous", groups: ["system:unauthenticated"] },
      asked: ["/users/ /system:anonymous"],
    },
    {
      name: "a user with an explicit system:authenticated group",
      headers: { "impersonate-user": ["eve"], "impersonate-group": ["system:authenticated"] },
      want: { name: "eve", groups: ["system:authenticated"] },
      asked: ["/users/ /eve", "/groups/ /system:authenticated"],
    },
    {
      name: "an unauthenticated user",
      headers: { "impersonate-user": ["eve"], "impersonate-group": ["system:unauthenticated"] },
      want: { name: "eve", groups: ["system:unauthenticated"] },
      asked: ["/users/ /eve", "/groups/ /system:unauthenticated"],
    },
  ])("is $name", ({ headers, want, asked }) => {
    const found = act(headers);
    expect(found.user).toEqual(want);
    expect(found.asked).toEqual(asked);
    expect(
      new Set(found.all.map(({ verb, version, path }) => [verb, version, path].join())),
    ).toEqual(new Set(asked.length === 0 ? [] : ["impersonate,v1,"]));
  });

  test("requires permission for each impersonated attribute", () => {
    const headers = { "impersonate-user": ["eve"], "impersonate-group": ["g"] };
    expect(() => act(headers, ({ resource }) => resource === "users")).toThrow(
      expect.objectContaining({
        code: 403,
        message:
          'groups "g" is forbidden: User "bob" cannot impersonate resource "groups" in API group "" at the cluster scope',
      }),
    );
  });

  test("is not named by any header of the forwarded request", () => {
    const { request } = act({
      "impersonate-user": ["eve"],
      "impersonate-extra-a": ["b"],
      accept: ["x"],
    });
    expect(request.headers).toEqual({ accept: "x" });
  });
});

test.each<{ headers: Distinct; want: string }>([
  { headers: { "impersonate-uid": ["u"] }, want: "[{UID  u  authentication.k8s.io/v1  }]" },
  { headers: { "impersonate-group": ["g", "h"] }, want: "[{Group  g    } {Group  h    }]" },
  {
    headers: { "impersonate-extra-k": ["v"] },
    want: "[{UserExtra  v  authentication.k8s.io/v1  k}]",
  },
])("$want without a user is rejected", ({ headers, want }) => {
  expect(() => act(headers)).toThrow(
    new MissingImpersonatedUser(`requested ${want} without impersonating a user`),
  );
});

test.each([
  { user: "system:serviceaccount:ns:sa", want: { namespace: "ns", name: "sa" } },
  { user: "system:serviceaccount:ns:", want: undefined },
  { user: "system:serviceaccount::sa", want: undefined },
  { user: "system:serviceaccount:ns:sa:x", want: undefined },
  { user: "eve:ns:sa", want: undefined },
])("parses $user as a service account: $want", ({ user, want }) => {
  expect(parseServiceAccount(user)).toEqual(want);
  expect(serviceAccountGroups("ns")).toContain("system:serviceaccounts:ns");
});
