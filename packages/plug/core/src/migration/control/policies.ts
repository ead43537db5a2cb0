// SPDX-License-Identifier: Apache-2.0
// Under which settings does a guest move? Those of the cluster, with what the policy that fits it best changes. Source: KubeVirt
// pkg/virt-controller/watch/migration, matchPolicy.
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

/** How well a policy fits, in labels. */
interface Fit {
  readonly all: number;
  readonly ofVmi: number;
}

/** Undefined: not at all, also where it names nothing. */
function fitOf({ spec }: MigrationPolicy, vmi: Labels, namespace: Labels): Fit | undefined {
  const { virtualMachineInstanceSelector, namespaceSelector } = spec.selectors ?? {};
  const ofVmi = countOf(virtualMachineInstanceSelector, vmi);
  const ofNamespace = countOf(namespaceSelector, namespace);
  if (ofVmi === undefined || ofNamespace === undefined) return undefined;
  const all = ofVmi + ofNamespace;
  return all === 0 ? undefined : { all, ofVmi };
}

/** Most labels first, then most of the VMI itself, then by name. */
function bestOf(
  policies: readonly MigrationPolicy[],
  vmi: Labels,
  namespace: Labels,
): MigrationPolicy | undefined {
  const fits = policies
    .flatMap((policy) => {
      const fit = fitOf(policy, vmi, namespace);
      return fit === undefined ? [] : [{ policy, name: policy.metadata.name, ...fit }];
    })
    .toSorted((a, b) => b.all - a.all || b.ofVmi - a.ofVmi || (a.name < b.name ? -1 : 1));
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
    allowAutoConverge,
    allowPostCopy,
    allowWorkloadDisruption,
    bandwidthPerMigration,
    completionTimeoutPerGiB,
    maxDowntimeMs,
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
