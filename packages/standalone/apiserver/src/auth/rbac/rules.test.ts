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

describe("what a rule allows", () => {
  const rows = [
    { name: "its resource", given: rule({ resources: ["pods"] }), ask: {}, want: true },
    {
      name: "no other verb",
      given: rule({ resources: ["pods"] }),
      ask: { verb: "list" },
      want: false,
    },
    {
      name: "no other group",
      given: rule({ resources: ["pods"] }),
      ask: { group: "apps" },
      want: false,
    },
    {
      name: "no subresource of its resource",
      given: rule({ resources: ["pods"] }),
      ask: { subresource: "status" },
      want: false,
    },
    {
      name: "a subresource that it names",
      given: rule({ resources: ["pods/status"] }),
      ask: { subresource: "status" },
      want: true,
    },
    {
      name: "a subresource of all resources",
      given: rule({ resources: ["*/scale"] }),
      ask: { resource: "widgets", subresource: "scale" },
      want: true,
    },
    {
      name: "everything by a star",
      given: rule({ resources: ["*"], verbs: ["*"], apiGroups: ["*"] }),
      ask: { group: "a.b", verb: "use", subresource: "status" },
      want: true,
    },
    {
      name: "a name that it names",
      given: rule({ resources: ["pods"], resourceNames: ["a"] }),
      ask: { name: "a" },
      want: true,
    },
    {
      name: "no other name",
      given: rule({ resources: ["pods"], resourceNames: ["a"] }),
      ask: { name: "b" },
      want: false,
    },
    {
      name: "nothing without a name, where it names names",
      given: rule({ resources: ["pods"], resourceNames: ["a"], verbs: ["create"] }),
      ask: { verb: "create" },
      want: false,
    },
    {
      name: "a path below its path",
      given: rule({ nonResourceURLs: ["/logs/*"] }),
      ask: { path: "/logs/a" },
      want: true,
    },
    {
      name: "no path beside it",
      given: rule({ nonResourceURLs: ["/logs/*"] }),
      ask: { path: "/log" },
      want: false,
    },
    {
      name: "no path by a star among its resources",
      given: rule({ resources: ["*"] }),
      ask: { path: "/logs" },
      want: false,
    },
  ];
  test.each(rows)("$name", ({ given, ask, want }) => {
    expect(given.some((one) => ruleAllows(one, attributesWith(ask)))).toBe(want);
  });
});

describe("what is missing to someone who gives rules away", () => {
  const rows = [
    {
      name: "nothing of what they hold",
      owned: rule({ resources: ["pods"], verbs: ["get", "list"] }),
      wanted: rule({ resources: ["pods"], verbs: ["list", "get"] }),
      want: "",
    },
    {
      name: "verbs, joined by resource",
      owned: rule({ resources: ["pods"] }),
      wanted: rule({ resources: ["secrets", "pods"], verbs: ["get", "list"] }),
      want: '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}\n{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
    },
    {
      name: "all names, where they hold one",
      owned: rule({ resources: ["pods"], resourceNames: ["a"] }),
      wanted: rule({ resources: ["pods"] }),
      want: '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
    },
    {
      name: "a name that they do not hold",
      owned: rule({ resources: ["pods"], resourceNames: ["a"] }),
      wanted: rule({ resources: ["pods"], resourceNames: ["a", "b"] }),
      want: '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}',
    },
    {
      name: "the star, where they hold only parts",
      owned: rule({ resources: ["pods"], verbs: ["get", "list"] }),
      wanted: rule({ resources: ["pods"], verbs: ["*"] }),
      want: '{APIGroups:[""], Resources:["pods"], Verbs:["*"]}',
    },
    {
      name: "a path that is not below theirs",
      owned: parseRules([{ nonResourceURLs: ["/a/*"], verbs: ["*"] }]),
      wanted: parseRules([{ nonResourceURLs: ["/a/b", "/c"], verbs: ["get"] }]),
      want: '{NonResourceURLs:["/c"], Verbs:["get"]}',
    },
    {
      name: "a path, though they hold all resources",
      owned: rule({ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }),
      wanted: parseRules([{ nonResourceURLs: ["/c"], verbs: ["get"] }]),
      want: '{NonResourceURLs:["/c"], Verbs:["get"]}',
    },
  ];
  test.each(rows)("$name", ({ owned, wanted, want }) => {
    expect(printRules(findMissingRules(owned, wanted))).toBe(want);
  });
});

test("a rule that is billions of rules is refused before it is broken down", () => {
  const names = Array.from({ length: 5000 }, (_, index) => `n${String(index)}`);
  const wanted = rule({ verbs: names, apiGroups: names, resources: names });
  expect(() => findMissingRules([], wanted)).toThrow("too large to be compared");
});

test("few rules are refused where too much is held to compare them with", () => {
  const names = Array.from({ length: 5000 }, (_, index) => `n${String(index)}`);
  const wanted = rule({ resources: names });
  expect(findMissingRules(rule({ resources: ["*"] }), wanted)).toEqual([]);
  expect(() => findMissingRules(rule({ resources: names }), wanted)).toThrow(
    "too large to be compared",
  );
});
