// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { findMissingRules, printRules } from "./escalation.ts";
import { type AccessAttributes, parseRules, ruleAllows } from "../authorizer.ts";

function rule(fields: Readonly<Record<string, readonly string[]>>) {
  return parseRules([{ apiGroups: [""], verbs: ["get"], ...fields }]);
}

function attributesWith(change: Partial<AccessAttributes>): AccessAttributes {
  const nothing = { subresource: "", namespace: "", name: "", path: "" };
  return { verb: "get", group: "", version: "v1", resource: "pods", ...nothing, ...change };
}

describe("matching of a rule", () => {
  const rows = [
    { name: "allows its resource", given: rule({ resources: ["pods"] }), ask: {}, want: true },
    {
      name: "allows no other verb",
      given: rule({ resources: ["pods"] }),
      ask: { verb: "list" },
      want: false,
    },
    {
      name: "allows no other group",
      given: rule({ resources: ["pods"] }),
      ask: { group: "apps" },
      want: false,
    },
    {
      name: "allows no subresource of its resource",
      given: rule({ resources: ["pods"] }),
      ask: { subresource: "status" },
      want: false,
    },
    {
      name: "allows a listed subresource",
      given: rule({ resources: ["pods/status"] }),
      ask: { subresource: "status" },
      want: true,
    },
    {
      name: "allows a subresource of all resources",
      given: rule({ resources: ["*/scale"] }),
      ask: { resource: "widgets", subresource: "scale" },
      want: true,
    },
    {
      name: "allows everything by wildcard",
      given: rule({ resources: ["*"], verbs: ["*"], apiGroups: ["*"] }),
      ask: { group: "a.b", verb: "use", subresource: "status" },
      want: true,
    },
    {
      name: "allows a listed resource name",
      given: rule({ resources: ["pods"], resourceNames: ["a"] }),
      ask: { name: "a" },
      want: true,
    },
    {
      name: "allows no other resource name",
      given: rule({ resources: ["pods"], resourceNames: ["a"] }),
      ask: { name: "b" },
      want: false,
    },
    {
      name: "allows no request without a name if it lists resource names",
      given: rule({ resources: ["pods"], resourceNames: ["a"], verbs: ["create"] }),
      ask: { verb: "create" },
      want: false,
    },
    {
      name: "allows a path below its path prefix",
      given: rule({ nonResourceURLs: ["/logs/*"] }),
      ask: { path: "/logs/a" },
      want: true,
    },
    {
      name: "allows no path outside its path prefix",
      given: rule({ nonResourceURLs: ["/logs/*"] }),
      ask: { path: "/log" },
      want: false,
    },
    {
      name: "allows no path by a wildcard in its resources",
      given: rule({ resources: ["*"] }),
      ask: { path: "/logs" },
      want: false,
    },
  ];
  test.each(rows)("$name", ({ given, ask, want }) => {
    expect(given.some((one) => ruleAllows(one, attributesWith(ask)))).toBe(want);
  });
});

describe("permissions that a granter lacks", () => {
  const rows = [
    {
      name: "are empty if the granter holds all verbs",
      owned: rule({ resources: ["pods"], verbs: ["get", "list"] }),
      wanted: rule({ resources: ["pods"], verbs: ["list", "get"] }),
      want: "",
    },
    {
      name: "list verbs, grouped by resource",
      owned: rule({ resources: ["pods"] }),
      wanted: rule({ resources: ["secrets", "pods"], verbs: ["get", "list"] }),
      want: '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}\n{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
    },
    {
      name: "include all names if the granter holds one name",
      owned: rule({ resources: ["pods"], resourceNames: ["a"] }),
      wanted: rule({ resources: ["pods"] }),
      want: '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
    },
    {
      name: "include a name that the granter does not hold",
      owned: rule({ resources: ["pods"], resourceNames: ["a"] }),
      wanted: rule({ resources: ["pods"], resourceNames: ["a", "b"] }),
      want: '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}',
    },
    {
      name: "include the wildcard if the granter holds only some verbs",
      owned: rule({ resources: ["pods"], verbs: ["get", "list"] }),
      wanted: rule({ resources: ["pods"], verbs: ["*"] }),
      want: '{APIGroups:[""], Resources:["pods"], Verbs:["*"]}',
    },
    {
      name: "include a path outside the granter's prefixes",
      owned: parseRules([{ nonResourceURLs: ["/a/*"], verbs: ["*"] }]),
      wanted: parseRules([{ nonResourceURLs: ["/a/b", "/c"], verbs: ["get"] }]),
      want: '{NonResourceURLs:["/c"], Verbs:["get"]}',
    },
    {
      name: "include a path even if the granter holds all resources",
      owned: rule({ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }),
      wanted: parseRules([{ nonResourceURLs: ["/c"], verbs: ["get"] }]),
      want: '{NonResourceURLs:["/c"], Verbs:["get"]}',
    },
  ];
  test.each(rows)("$name", ({ owned, wanted, want }) => {
    expect(printRules(findMissingRules(owned, wanted))).toBe(want);
  });
});

test("rejects a rule that expands to billions of rules before expanding it", () => {
  const names = Array.from({ length: 5000 }, (_, index) => `n${String(index)}`);
  const wanted = rule({ verbs: names, apiGroups: names, resources: names });
  expect(() => findMissingRules([], wanted)).toThrow("too large to be compared");
});

test("rejects a small rule if the held rules are too many to compare", () => {
  const names = Array.from({ length: 5000 }, (_, index) => `n${String(index)}`);
  const wanted = rule({ resources: names });
  expect(findMissingRules(rule({ resources: ["*"] }), wanted)).toEqual([]);
  expect(() => findMissingRules(rule({ resources: names }), wanted)).toThrow(
    "too large to be compared",
  );
});
