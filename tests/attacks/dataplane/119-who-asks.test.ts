// SPDX-License-Identifier: Apache-2.0
// The admission policy of a cluster's API server on tenant pods that request the sockets of all VMs. Standalone offers
// no such resource.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { compileCondition } from "../../../packages/standalone/apiserver/src/expressions/condition.ts";

const PATH = join(import.meta.dirname, "../../../packages/common/manifests/vhost-user/policy.yaml");

interface Policy {
  readonly spec: {
    readonly failurePolicy: string;
    readonly matchConstraints: { readonly resourceRules: readonly object[] };
    readonly validations: readonly { readonly expression: string }[];
  };
}

const [policy, binding] = parseAllDocuments(readFileSync(PATH, "utf8")).map(
  (document) => document.toJS() as unknown,
) as [Policy, unknown];
const ALL = { "vhost-user.patchbay.io/dataplane": "1" };

/** Whether the policy admits a pod with that spec. */
function allows(spec: object): boolean {
  const variables = { object: { spec }, oldObject: null, request: {} };
  return policy.spec.validations.every(({ expression }) => compileCondition(expression)(variables));
}

test.each([
  { name: "limits", spec: { containers: [{ resources: { limits: ALL, requests: ALL } }] } },
  {
    name: "resource requests without limits",
    spec: { containers: [{ resources: { requests: ALL } }] },
  },
  { name: "the second container", spec: { containers: [{}, { resources: { limits: ALL } }] } },
  {
    name: "an init container",
    spec: { containers: [{}], initContainers: [{ resources: { limits: ALL } }] },
  },
])(
  "attack 119: rejects a tenant's pod that requests the sockets of all VMs of its node, by $name",
  ({ spec }) => {
    expect(allows(spec)).toBe(false);
  },
);

test.each([
  { name: "no dataplane socket", spec: { containers: [{ name: "c" }] } },
  {
    name: "its own directory",
    spec: {
      containers: [{ resources: { limits: { "vhost-user.patchbay.io/sockets": "1", cpu: "1" } } }],
      initContainers: [{ resources: { requests: { cpu: "1" } } }],
    },
  },
])("accepts pods that request $name", ({ spec }) => {
  expect(allows(spec)).toBe(true);
});

test("checks every pod in a namespace without the label", () => {
  expect(policy.spec).toMatchObject({
    failurePolicy: "Fail",
    matchConstraints: { resourceRules: [{ operations: ["CREATE"], resources: ["pods"] }] },
  });
  const key = "patchbay.io/vhost-user-dataplane";
  expect(binding).toMatchObject({
    spec: {
      policyName: "vhost-user-dataplane.patchbay.io",
      validationActions: ["Deny"],
      matchResources: {
        namespaceSelector: { matchExpressions: [{ key, operator: "NotIn", values: ["true"] }] },
      },
    },
  });
});
