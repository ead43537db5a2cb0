// SPDX-License-Identifier: Apache-2.0
// Refusals and defaults of roles and bindings.
import { expect, test } from "vitest";
import { changeRefusals, refusals, withDefaults } from "../../testing/judge.ts";
import { defineKind, type Kind } from "../kind.ts";
import { RBAC_KINDS, REVIEW_KINDS, isReview } from "./rbac.ts";

const GROUP = "rbac.authorization.k8s.io";
const [ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING] = RBAC_KINDS as readonly [
  Kind,
  Kind,
  Kind,
  Kind,
];
const rule = { verbs: ["get"], apiGroups: [""], resources: ["pods"] };
const verbs = ["get"];
const nonResourceURLs = ["/a", "/b"];
const NO_NAMESPACED = "namespaced rules cannot apply to non-resource URLs";
const NOT_BOTH = "rules cannot apply to both regular resources and non-resource URLs";
const BAD_PATHS = 'rules[0].nonResourceURLs: Invalid value: []string{"/a", "/b"}';

test.each<{ name: string; kind: Kind; given: Record<string, unknown>; want: readonly string[] }>([
  { name: "a complete rule", kind: ROLE, given: { rules: [rule] }, want: [] },
  {
    name: "an empty second rule",
    kind: ROLE,
    given: { rules: [rule, {}] },
    want: [
      "rules[1].verbs: Required value: verbs must contain at least one value",
      "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
      "rules[1].resources: Required value: resource rules must supply at least one resource",
    ],
  },
  {
    name: "paths in a namespace",
    kind: ROLE,
    given: { rules: [{ verbs, nonResourceURLs }] },
    want: [`${BAD_PATHS}: ${NO_NAMESPACED}`],
  },
  {
    name: "paths and resource names in a namespaced role",
    kind: ROLE,
    given: { rules: [{ nonResourceURLs, resourceNames: ["x"] }] },
    want: [
      "rules[0].verbs: Required value: verbs must contain at least one value",
      `${BAD_PATHS}: ${NO_NAMESPACED}`,
      `${BAD_PATHS}: ${NOT_BOTH}`,
    ],
  },
  {
    name: "paths in a cluster role",
    kind: CLUSTER_ROLE,
    given: { rules: [{ verbs, nonResourceURLs }] },
    want: [],
  },
  {
    name: "paths beside an API group in a cluster role",
    kind: CLUSTER_ROLE,
    given: { rules: [{ verbs, nonResourceURLs, apiGroups: [""] }] },
    want: [`${BAD_PATHS}: ${NOT_BOTH}`],
  },
  {
    name: "an aggregation without selectors",
    kind: CLUSTER_ROLE,
    given: { aggregationRule: {} },
    want: [
      "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
    ],
  },
  {
    name: "an aggregation",
    kind: CLUSTER_ROLE,
    given: { aggregationRule: { clusterRoleSelectors: [{}] } },
    want: [],
  },
])("a role: $name", ({ kind, given, want }) => {
  expect(refusals(kind, given)).toEqual(want);
});

const roleRef = { apiGroup: GROUP, kind: "ClusterRole", name: "r" };

test.each<{ name: string; kind?: Kind; given: Record<string, unknown>; want: readonly string[] }>([
  {
    name: "each kind of subject, whose groups are completed",
    given: {
      roleRef: { kind: "ClusterRole", name: "r" },
      subjects: [
        { kind: "User", name: "u" },
        { kind: "Group", name: "g:x" },
        { kind: "ServiceAccount", name: "s" },
      ],
    },
    want: [],
  },
  {
    name: "a role of the namespace",
    given: { roleRef: { kind: "Role", name: "r" } },
    want: [],
  },
  {
    name: "a namespaced role in a cluster role binding",
    kind: CLUSTER_ROLE_BINDING,
    given: { roleRef: { kind: "Role", name: "r" } },
    want: ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
  },
  {
    name: "no role",
    given: {},
    want: [
      `roleRef.apiGroup: Unsupported value: "": supported values: "${GROUP}"`,
      'roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"',
      "roleRef.name: Required value",
    ],
  },
  {
    name: "an invalid role reference",
    given: { roleRef: { apiGroup: "x", kind: "Role", name: "a/b" } },
    want: [
      `roleRef.apiGroup: Unsupported value: "x": supported values: "${GROUP}"`,
      "roleRef.name: Invalid value: \"a/b\": may not be '.', '..' or contain '/' or '%'",
    ],
  },
  {
    name: "subjects of no kind, and of another group",
    given: { roleRef, subjects: [{ kind: "Robot" }, { kind: "User", apiGroup: "x", name: "u" }] },
    want: [
      "subjects[0].name: Required value",
      'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
      `subjects[1].apiGroup: Unsupported value: "x": supported values: "${GROUP}"`,
    ],
  },
  {
    name: "service accounts without a namespace in a role binding",
    given: {
      roleRef,
      subjects: [{ kind: "ServiceAccount" }, { kind: "ServiceAccount", name: "A_", apiGroup: "x" }],
    },
    want: [
      "subjects[0].name: Required value",
      expect.stringMatching(
        /^subjects\[1\]\.name: Invalid value: "A_": a lowercase RFC 1123/,
      ) as string,
      'subjects[1].apiGroup: Unsupported value: "x": supported values: ""',
    ],
  },
  {
    name: "service accounts without a namespace in a cluster role binding",
    kind: CLUSTER_ROLE_BINDING,
    given: {
      roleRef,
      subjects: [
        { kind: "ServiceAccount", name: "a" },
        { kind: "ServiceAccount", name: "a", namespace: "n" },
      ],
    },
    want: ["subjects[0].namespace: Required value"],
  },
])("a binding: $name", ({ kind = ROLE_BINDING, given, want }) => {
  expect(refusals(kind, given)).toEqual(want);
});

test("retains API groups of client subjects, and service accounts have no group", () => {
  const subjects = [
    { kind: "User", name: "u", apiGroup: "x" },
    { kind: "ServiceAccount", name: "s" },
    { kind: "Group", name: "g" },
  ];
  const given = { roleRef: { apiGroup: "y", name: "r" }, subjects };
  expect(withDefaults(ROLE_BINDING, given)).toMatchObject({
    roleRef: { apiGroup: "y" },
    subjects: [subjects[0], subjects[1], { ...subjects[2], apiGroup: GROUP }],
  });
  expect(withDefaults(ROLE_BINDING, given)["subjects"]).toHaveProperty("1", subjects[1]);
});

test("a binding cannot change its role", () => {
  const other = { roleRef: { ...roleRef, name: "s" } };
  expect(changeRefusals(ROLE_BINDING, { roleRef }, { roleRef, subjects: [] })).toEqual([]);
  expect(changeRefusals(ROLE_BINDING, { roleRef }, other)).toEqual([
    `roleRef: Invalid value: rbac.RoleRef{APIGroup:"${GROUP}", Kind:"ClusterRole", Name:"s"}: cannot change roleRef`,
  ]);
});

test("reviews only support create, and local reviews are namespaced", () => {
  expect(REVIEW_KINDS.filter(({ namespaced }) => namespaced).map(({ kind }) => kind)).toEqual([
    "LocalSubjectAccessReview",
  ]);
  expect(new Set(REVIEW_KINDS.flatMap((kind) => kind.verbs))).toEqual(new Set(["create"]));
  expect(REVIEW_KINDS.every(isReview)).toBe(true);
  expect(isReview(ROLE)).toBe(false);
});

test("rejects a kind without a schema", () => {
  const unknown = { group: "x.io", version: "v1", resource: "xs", kind: "X" };
  expect(() => defineKind(unknown)).toThrow("X has no shape");
});
