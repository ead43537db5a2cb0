// SPDX-License-Identifier: Apache-2.0
// Settings of a VMI's migrations: the cluster's configuration and the best matching MigrationPolicy. Source: KubeVirt
// pkg/virt-controller/watch/migration, matchPolicy.
import {
  buildMigrationConfig,
  type KubeVirt,
  type MigrationPolicy,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { omitUndefined } from "@patchbay/base";
import type { MigrationSettings } from "./facts.ts";

type Labels = Readonly<Record<string, string>>;

/** Number of labels in the selector. Undefined if one does not match. */
function countMatches(selector: Labels = {}, labels: Labels = {}): number | undefined {
  const named = Object.entries(selector);
  return named.every(([key, value]) => labels[key] === value) ? named.length : undefined;
}

interface Fit {
  readonly all: number;
  readonly ofVmi: number;
}

/** Undefined if the policy does not match or has no selector. */
function matchPolicy({ spec }: MigrationPolicy, vmi: Labels, namespace: Labels): Fit | undefined {
  const { virtualMachineInstanceSelector, namespaceSelector } = spec.selectors ?? {};
  const ofVmi = countMatches(virtualMachineInstanceSelector, vmi);
  const ofNamespace = countMatches(namespaceSelector, namespace);
  if (ofVmi === undefined || ofNamespace === undefined) return undefined;
  const all = ofVmi + ofNamespace;
  return all === 0 ? undefined : { all, ofVmi };
}

/** Prefers the most matching labels, then the most on the VMI, then the name. */
function findBestPolicy(
  policies: readonly MigrationPolicy[],
  vmi: Labels,
  namespace: Labels,
): MigrationPolicy | undefined {
  const fits = policies
    .flatMap((policy) => {
      const fit = matchPolicy(policy, vmi, namespace);
      return fit === undefined ? [] : [{ policy, name: policy.metadata.name, ...fit }];
    })
    .toSorted((a, b) => b.all - a.all || b.ofVmi - a.ofVmi || (a.name < b.name ? -1 : 1));
  return fits[0]?.policy;
}

export function usesNamespaceLabels(policies: readonly MigrationPolicy[]): boolean {
  return policies.some(
    ({ spec }) => Object.keys(spec.selectors?.namespaceSelector ?? {}).length > 0,
  );
}

function policySettings({ spec }: MigrationPolicy) {
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
  by: { readonly policies: readonly MigrationPolicy[]; readonly namespaceLabels: Labels },
): MigrationSettings {
  const cluster = kubevirt?.spec?.configuration?.migrations;
  const policy = findBestPolicy(by.policies, metadata.labels ?? {}, by.namespaceLabels);
  if (policy === undefined) {
    return { configuration: buildMigrationConfig(cluster), policyName: undefined };
  }
  const configuration = buildMigrationConfig(cluster, policySettings(policy));
  return { configuration, policyName: policy.metadata.name };
}
