// SPDX-License-Identifier: Apache-2.0
// Which policy counts for a guest, and what does it change?
import type { MigrationPolicy } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { usesNamespaceLabels, readMigrationSettings } from "./settings.ts";

type Labels = Readonly<Record<string, string>>;

function aPolicy(name: string, vmi?: Labels, namespace?: Labels): MigrationPolicy {
  const selectors = {
    ...(vmi === undefined ? {} : { virtualMachineInstanceSelector: vmi }),
    ...(namespace === undefined ? {} : { namespaceSelector: namespace }),
  };
  return {
    apiVersion: "migrations.kubevirt.io/v1alpha1",
    kind: "MigrationPolicy",
    metadata: { name },
    spec: { selectors },
  };
}

function nameFor(policies: readonly MigrationPolicy[]): string | undefined {
  const { metadata } = aVmi();
  const vmi = { metadata: { ...metadata, labels: { size: "big", team: "a" } } };
  const namespaceLabels = { stage: "production" };
  return readMigrationSettings(undefined, vmi, { policies, namespaceLabels }).policyName;
}

test.each<{ name: string; policies: readonly MigrationPolicy[]; want: string | undefined }>([
  { name: "no policies", policies: [], want: undefined },
  { name: "a policy without selectors", policies: [aPolicy("a")], want: undefined },
  { name: "a policy that matches the VMI", policies: [aPolicy("a", { size: "big" })], want: "a" },
  {
    name: "a policy with a different label value",
    policies: [aPolicy("a", { size: "small" })],
    want: undefined,
  },
  {
    name: "a policy with one of two labels missing",
    policies: [aPolicy("a", { size: "big", none: "x" })],
    want: undefined,
  },
  {
    name: "a policy that matches the namespace",
    policies: [aPolicy("a", {}, { stage: "production" })],
    want: "a",
  },
  {
    name: "a policy whose namespace selector does not match",
    policies: [aPolicy("a", { size: "big" }, { stage: "test" })],
    want: undefined,
  },
  {
    name: "the policy with the most matching labels",
    policies: [
      aPolicy("a", { size: "big" }),
      aPolicy("b", { size: "big" }, { stage: "production" }),
    ],
    want: "b",
  },
  {
    name: "the policy with the most matching VMI labels",
    policies: [aPolicy("a", {}, { stage: "production" }), aPolicy("b", { size: "big" })],
    want: "b",
  },
  {
    name: "the first policy by name",
    policies: [aPolicy("b", { size: "big" }), aPolicy("a", { team: "a" })],
    want: "a",
  },
])("$name: $want", ({ policies, want }) => {
  expect(nameFor(policies)).toBe(want);
});

test("a policy overrides its fields; unset fields use the cluster's settings or the defaults", () => {
  const policy = aPolicy("a", { size: "big" });
  const policies = [{ ...policy, spec: { ...policy.spec, maxDowntimeMs: 50 } }];
  const { metadata } = aVmi();
  const kubevirt = {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: { name: "kubevirt" },
    spec: { configuration: { migrations: { maxDowntimeMs: 500, progressTimeout: 30 } } },
  };
  const settingsOf = (labels: Labels) =>
    readMigrationSettings(
      kubevirt,
      { metadata: { ...metadata, labels } },
      { policies, namespaceLabels: {} },
    );
  expect(settingsOf({ size: "big" })).toMatchObject({
    policyName: "a",
    configuration: { maxDowntimeMs: 50, progressTimeout: 30, completionTimeoutPerGiB: 150 },
  });
  expect(settingsOf({})).toMatchObject({
    policyName: undefined,
    configuration: { maxDowntimeMs: 500, progressTimeout: 30, allowPostCopy: false },
  });
});

test("reads namespace labels only if a policy selects by them", () => {
  expect(usesNamespaceLabels([aPolicy("a", { size: "big" }, {})])).toBe(false);
  expect(usesNamespaceLabels([aPolicy("a"), aPolicy("b", {}, { stage: "x" })])).toBe(true);
});
