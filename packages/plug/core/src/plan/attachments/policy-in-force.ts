// SPDX-License-Identifier: Apache-2.0
// The tenant policy of a node: from flags, then the KubeVirt object, then defaults.
import {
  names,
  POLICY_FIELD_NAMES,
  POLICY_FIELDS,
  policyCauses,
  type Cause,
  type ClusterTenantPolicy,
  type KubeVirt,
  type PolicyFieldName,
} from "@patchbay/api";
import type { TenantPolicy } from "./tenant-policy.ts";

const POLICY_FIELD = "spec.configuration.network.tenantPolicy";

function buildPolicy(readList: (name: PolicyFieldName) => readonly string[]): TenantPolicy {
  const entries = POLICY_FIELD_NAMES.map((name) => [name, readList(name)] as const);
  return Object.fromEntries(entries) as unknown as TenantPolicy;
}

export const DEFAULT_POLICY: TenantPolicy = buildPolicy((name) => POLICY_FIELDS[name].fallback);

/** KubeVirt's own type lacks this field. It is offered only in Patchbay's namespace or where it is set. */
function hasPolicyField(kubevirt: KubeVirt | undefined): boolean {
  if (kubevirt === undefined) return false;
  return (
    kubevirt.metadata.namespace === names.SERVICES_NAMESPACE ||
    kubevirt.spec?.configuration?.network?.tenantPolicy !== undefined
  );
}

export function policySettingOf(kubevirt: KubeVirt | undefined): string {
  return hasPolicyField(kubevirt) ? `, or in ${POLICY_FIELD} of the KubeVirt object` : "";
}

interface PolicySources {
  readonly flags: ClusterTenantPolicy;
  /** Undefined if there is none or it may not be read. */
  readonly kubevirt: KubeVirt | undefined;
  /** The policy so far; undefined at the first reconcile. */
  readonly before: TenantPolicy | undefined;
}

interface PolicyInForce {
  readonly policy: TenantPolicy;
  readonly causes: readonly Cause[];
}

/**
 * Chooses list by list. While any list of the KubeVirt object is invalid, the previous policy stays in force. Without a
 * previous policy, an invalid list allows nothing.
 */
export function policyInForce({ flags, kubevirt, before }: PolicySources): PolicyInForce {
  const given = kubevirt?.spec?.configuration?.network?.tenantPolicy ?? {};
  const causesOf = (name: PolicyFieldName): readonly Cause[] =>
    given[name] === undefined ? [] : policyCauses(name, given[name], `${POLICY_FIELD}.${name}`);
  const causes = POLICY_FIELD_NAMES.flatMap(causesOf);
  if (causes.length > 0 && before !== undefined) return { policy: before, causes };
  const policy = buildPolicy((name) => {
    const configured = causesOf(name).length > 0 ? [] : given[name];
    return flags[name] ?? configured ?? POLICY_FIELDS[name].fallback;
  });
  return { policy, causes };
}
