// SPDX-License-Identifier: Apache-2.0
// Migration settings of a VMI. Source: KubeVirt pkg/virt-controller/watch/migration, matchPolicy.
import {
  buildMigrationConfig,
  type KubeVirt,
  type MigrationPolicy,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { omitUndefined } from "@patchbay/base";
import type { MigrationSettings } from "./facts.ts";

type Labels = Readonly<Record<string, string>>;

/** Returns the number of labels in the selector if `labels` contains them all, otherwise undefined. */
function countMatches(selector: Labels = {}, labels: Labels = {}): number | undefined {
  const requirements = Object.entries(selector);
  return requirements.every(([key, value]) => labels[key] === value)
    ? requirements.length
    : undefined;
}

interface PolicyMatch {
  readonly labelCount: number;
  readonly vmiLabelCount: number;
}

/** Counts the labels in the policy's selectors. Returns undefined if the policy does not match or has no selector. */
function matchPolicy(
  { spec }: MigrationPolicy,
  vmi: Labels,
  namespace: Labels,
): PolicyMatch | undefined {
  const { virtualMachineInstanceSelector, namespaceSelector } = spec.selectors ?? {};
  const vmiLabelCount = countMatches(virtualMachineInstanceSelector, vmi);
  const namespaceLabelCount = countMatches(namespaceSelector, namespace);
  if (vmiLabelCount === undefined || namespaceLabelCount === undefined) return undefined;
  const labelCount = vmiLabelCount + namespaceLabelCount;
  return labelCount === 0 ? undefined : { labelCount, vmiLabelCount };
}

/** Returns the matching policy that requires the most labels. Ties are decided by the number of VMI labels, then by the name. */
function findBestPolicy(
  policies: readonly MigrationPolicy[],
  vmi: Labels,
  namespace: Labels,
): MigrationPolicy | undefined {
  const matches = policies
    .flatMap((policy) => {
      const match = matchPolicy(policy, vmi, namespace);
      return match === undefined ? [] : [{ policy, name: policy.metadata.name, ...match }];
    })
    .toSorted(
      (left, right) =>
        right.labelCount - left.labelCount ||
        right.vmiLabelCount - left.vmiLabelCount ||
        (left.name < right.name ? -1 : 1),
    );
  return matches[0]?.policy;
}

export function usesNamespaceLabels(policies: readonly MigrationPolicy[]): boolean {
  return policies.some(
    ({ spec }) => Object.keys(spec.selectors?.namespaceSelector ?? {}).length > 0,
  );
}

function readPolicySettings({ spec }: MigrationPolicy) {
  const { allowAutoConverge, allowPostCopy, allowWorkloadDisruption } = spec;
  const { bandwidthPerMigration, completionTimeoutPerGiB, maxDowntimeMs } = spec;
  return omitUndefined({
    allowAutoConverge,
    allowPostCopy,
    allowWorkloadDisruption,
    bandwidthPerMigration,
    completionTimeoutPerGiB,
    maxDowntimeMs,
  });
}

export function readMigrationSettings(
  kubevirt: KubeVirt | undefined,
  { metadata }: Pick<VirtualMachineInstance, "metadata">,
  sources: { readonly policies: readonly MigrationPolicy[]; readonly namespaceLabels: Labels },
): MigrationSettings {
  const cluster = kubevirt?.spec?.configuration?.migrations;
  const policy = findBestPolicy(sources.policies, metadata.labels ?? {}, sources.namespaceLabels);
  if (policy === undefined) {
    return { configuration: buildMigrationConfig(cluster), policyName: undefined };
  }
  const configuration = buildMigrationConfig(cluster, readPolicySettings(policy));
  return { configuration, policyName: policy.metadata.name };
}
