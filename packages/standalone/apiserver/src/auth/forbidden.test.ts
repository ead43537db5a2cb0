// SPDX-License-Identifier: Apache-2.0
// Texts of refusals that tools parse.
import { expect, test } from "vitest";
import { forbiddenBecause, forbiddenTo } from "./forbidden.ts";

const EVE = { name: "eve", groups: [] };
const PODS = {
  verb: "list",
  group: "",
  version: "v1",
  resource: "pods",
  subresource: "",
  namespace: "",
  name: "",
  path: "",
};

test.each([
  {
    change: {},
    reason: "",
    message:
      'pods is forbidden: User "eve" cannot list resource "pods" in API group "" at the cluster scope',
    details: { kind: "pods" },
  },
  {
    change: { group: "a.io", subresource: "log", namespace: "ns", name: "p", verb: "get" },
    reason: "no role",
    message:
      'pods.a.io "p" is forbidden: User "eve" cannot get resource "pods/log" in API group "a.io" in the namespace "ns": no role',
    details: { name: "p", group: "a.io", kind: "pods" },
  },
  {
    change: { resource: "", path: "/x", verb: "get" },
    reason: "",
    message: 'forbidden: User "eve" cannot get path "/x"',
    details: {},
  },
])("$message", ({ change, reason, message, details }) => {
  const refusal = forbiddenTo(EVE, { ...PODS, ...change }, reason);
  expect([refusal.code, refusal.reason, refusal.message, refusal.details]).toEqual([
    403,
    "Forbidden",
    message,
    details,
  ]);
});

test("omits the name if there is no resource", () => {
  const refusal = forbiddenBecause({ group: "", resource: "", name: "x" }, "why");
  expect(refusal.message).toBe("forbidden: why");
});
