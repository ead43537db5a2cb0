// SPDX-License-Identifier: Apache-2.0
// Under which settings does a guest move? Those of the cluster, with what the policy that fits it best changes. Source: KubeVirt
// api/migrations/v1alpha1, matchVMI.
import {
  migrationConfigOf,
  type KubeVirt,
  type MigrationPolicy,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { dropAbsent } from "../../drop-absent.ts";
import type { MigrationSettings } from "./facts.ts";

type Labels = Readonly<Record<string, string>>;

/** How many labels it names; undefined: one of them is not there. */
function countOf(selector: Labels = {}, labels: Labels = {}): number | undefined {
  const named = Object.entries(selector);
  return named.every(([key, value]) => labels[key] === value) ? named.length : undefined;
}

/** How well a policy fits; 0: not at all, also where it names nothing. */
function fitOf({ spec }: MigrationPolicy, vmi: Labels, namespace: Labels): number {
  const { virtualMachineInstanceSelector, namespaceSelector } = spec.selectors ?? {};
  const counts = [
    countOf(virtualMachineInstanceSelector, vmi),
    countOf(namespaceSelector, namespace),
  ];
  return counts.reduce<number>((sum, count) => (count === undefined ? -Infinity : sum + count), 0);
}

/** Most labels first, then by name. */
function bestOf(
  policies: readonly MigrationPolicy[],
  vmi: Labels,
  namespace: Labels,
): MigrationPolicy | undefined {
  const fits = policies
    .map((policy) => ({ policy, fit: fitOf(policy, vmi, namespace) }))
    .filter(({ fit }) => fit > 0)
    .toSorted(
      (a, b) => b.fit - a.fit || (a.policy.metadata.name < b.policy.metadata.name ? -1 : 1),
    );
  return fits[0]?.policy;
}

/** Whether labels of namespaces count. */
export function asksForNamespace(policies: readonly MigrationPolicy[]): boolean {
  return policies.some(
    ({ spec }) => Object.keys(spec.selectors?.namespaceSelector ?? {}).length > 0,
  );
}

/** What the policy says, without its selectors. */
function settingsOf({ spec }: MigrationPolicy) {
  const { allowAutoConverge, allowPostCopy, allowWorkloadDisruption } = spec;
  const { bandwidthPerMigration, completionTimeoutPerGiB, maxDowntimeMs } = spec;
  return dropAbsent({
    ...{ allowAutoConverge, allowPostCopy, allowWorkloadDisruption },
    ...{ bandwidthPerMigration, completionTimeoutPerGiB, maxDowntimeMs },
  });
}

/** Settings of the VMI's migrations. */
export function migrationSettingsOf(
  kubevirt: KubeVirt | undefined,
  { metadata }: Pick<VirtualMachineInstance, "metadata">,
  by: { readonly policies: readonly MigrationPolicy[]; readonly namespaceLabels: Labels },
): MigrationSettings {
  const cluster = kubevirt?.spec?.configuration?.migrations;
  const policy = bestOf(by.policies, metadata.labels ?? {}, by.namespaceLabels);
  if (policy === undefined) {
    return { configuration: migrationConfigOf(cluster), policyName: undefined };
  }
  const configuration = migrationConfigOf(cluster, settingsOf(policy));
  return { configuration, policyName: policy.metadata.name };
}
