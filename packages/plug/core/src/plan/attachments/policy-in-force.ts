// SPDX-License-Identifier: Apache-2.0
// Which policy counts on a node? What its flags name, else what the cluster says, else what counts by default.
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

/** Where the cluster says it, in the KubeVirt object. */
const FIELD = "spec.configuration.network.tenantPolicy";

function eachField(listOf: (name: PolicyFieldName) => readonly string[]): TenantPolicy {
  const entries = POLICY_FIELD_NAMES.map((name) => [name, listOf(name)] as const);
  // The names are the keys of the type.
  return Object.fromEntries(entries) as unknown as TenantPolicy;
}

/** As net-agent has it where nobody says anything. */
export const DEFAULT_POLICY: TenantPolicy = eachField((name) => POLICY_FIELDS[name].fallback);

/** KubeVirt's own kind has no such field, so it is expected in Patchbay's namespace only, and where it is set. */
function hasPolicyField(kubevirt: KubeVirt | undefined): boolean {
  if (kubevirt === undefined) return false;
  return (
    kubevirt.metadata.namespace === names.SERVICES_NAMESPACE ||
    kubevirt.spec?.configuration?.network?.tenantPolicy !== undefined
  );
}

/** End of an advice that names a flag: the field of the KubeVirt object that does the same, where the object has it. */
export function policySettingOf(kubevirt: KubeVirt | undefined): string {
  return hasPolicyField(kubevirt) ? `, or in ${FIELD} of the KubeVirt object` : "";
}

/** Who says what. */
interface PolicySources {
  /** Lists that the node's flags name. */
  readonly flags: ClusterTenantPolicy;
  /** The cluster's configuration; undefined where there is none, or none that may be read. */
  readonly kubevirt: KubeVirt | undefined;
  /** What was in force until now; undefined: this is the first look. */
  readonly before: TenantPolicy | undefined;
}

/** What counts, and all that is wrong with what the cluster says. */
interface PolicyInForce {
  readonly policy: TenantPolicy;
  readonly causes: readonly Cause[];
}

/**
 * List by list: the flags', else the cluster's, else the default. While anything that the cluster says cannot be understood, all
 * stays as it was; where nothing is known of before, such a list allows nothing.
 */
export function policyInForce({ flags, kubevirt, before }: PolicySources): PolicyInForce {
  const given = kubevirt?.spec?.configuration?.network?.tenantPolicy ?? {};
  const causesOf = (name: PolicyFieldName): readonly Cause[] =>
    given[name] === undefined ? [] : policyCauses(name, given[name], `${FIELD}.${name}`);
  const causes = POLICY_FIELD_NAMES.flatMap(causesOf);
  if (causes.length > 0 && before !== undefined) return { policy: before, causes };
  const policy = eachField((name) => {
    const said = causesOf(name).length > 0 ? [] : given[name];
    return flags[name] ?? said ?? POLICY_FIELDS[name].fallback;
  });
  return { policy, causes };
}
