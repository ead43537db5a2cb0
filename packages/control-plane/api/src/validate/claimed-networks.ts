// SPDX-License-Identifier: Apache-2.0
// Rules for resource claims and the networks that use them. Source: KubeVirt pkg/network/admitter/dra.go; Kubernetes
// validatePodResourceClaims.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { listBindings, type Binding, type Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { findByName, firstByKey, memoize } from "../values/memoize.ts";
import { isNamespaceName, isObjectName } from "../values/name-syntax.ts";
import {
  causeIf,
  findIfaceNetwork,
  forEachNetwork,
  networkPath,
  type Rule,
  type ValidatedSpec,
} from "./rule.ts";

const noMultusBeside: Rule = ({ networks, base }) =>
  causeIf(
    networks.some(({ resourceClaim }) => resourceClaim !== undefined) &&
      networks.some(({ multus }) => multus !== undefined),
    {
      reason: "FieldValueInvalid",
      field: `${base}.networks`,
      message:
        "mixing networks of resource claims with networks of NetworkAttachmentDefinitions is not supported",
    },
  );

/** Bindings for devices of resource claims. KubeVirt does not accept bridge, because its claims provide no link in the pod's netns. */
const CLAIM_BINDINGS: readonly Binding[] = ["bridge", "sriov", "binding"];

const bindingFitsClaim: Rule = (spec) =>
  spec.ifaces.flatMap((iface) => {
    const isClaimed = findIfaceNetwork(spec, iface)?.resourceClaim !== undefined;
    const isFitting = listBindings(iface).some((binding) => CLAIM_BINDINGS.includes(binding));
    return causeIf(isClaimed && !isFitting, {
      reason: "FieldValueInvalid",
      field: `${spec.base}.domain.devices.interfaces`,
      message: `network "${iface.name}" of a resource claim requires a bridge, SR-IOV or binding plugin interface`,
    });
  });

const claimIsNamed = forEachNetwork(({ resourceClaim }, path) => {
  if (resourceClaim === undefined) return [];
  return (["claimName", "requestName"] as const).flatMap((field) =>
    causeIf((resourceClaim[field] ?? "") === "", {
      reason: "FieldValueRequired",
      field: `${path}.resourceClaim.${field}`,
      message: `${field} is required for a network of a resource claim`,
    }),
  );
});

const claimIsDefined = forEachNetwork(({ resourceClaim }, path, { spec, base }) => {
  const { claimName = "" } = resourceClaim ?? {};
  const isDefined = findByName(spec.resourceClaims, claimName) !== undefined;
  return causeIf(claimName !== "" && !isDefined, {
    reason: "FieldValueNotFound",
    field: `${path}.resourceClaim.claimName`,
    message: `references resource claim "${claimName}", which is not defined in ${base}.resourceClaims`,
  });
});

function printRequest({ resourceClaim }: Network): string {
  return JSON.stringify([resourceClaim?.claimName, resourceClaim?.requestName]);
}

const networkByRequest = memoize(({ networks }: ValidatedSpec) =>
  firstByKey(networks, printRequest),
);

const requestIsUsedOnce = forEachNetwork((network, path, spec) => {
  const { resourceClaim } = network;
  const { claimName = "", requestName = "" } = resourceClaim ?? {};
  const first = networkByRequest(spec).get(printRequest(network));
  return causeIf(claimName !== "" && requestName !== "" && first?.resourceClaim !== resourceClaim, {
    reason: "FieldValueDuplicate",
    field: path,
    message: `duplicate claimName/requestName combination ${claimName}/${requestName}, which network "${first?.name ?? ""}" already has`,
  });
});

type Claim = NonNullable<VmiSpec["resourceClaims"]>[number];

function listNameCauses({ name }: Claim, path: string, isDuplicate: boolean): readonly Cause[] {
  const field = `${path}.name`;
  return [
    ...causeIf(name === "", { reason: "FieldValueRequired", field, message: "Required value" }),
    ...causeIf(name !== "" && !isNamespaceName(name), {
      reason: "FieldValueInvalid",
      field,
      message: `"${name}" must be a lowercase DNS label of at most 63 characters`,
    }),
    ...causeIf(name !== "" && isDuplicate, {
      reason: "FieldValueDuplicate",
      field,
      message: `Duplicate value: "${name}"`,
    }),
  ];
}

const CLAIM_SOURCES = ["resourceClaimName", "resourceClaimTemplateName"] as const;

function listSourceCauses(claim: Claim, path: string): readonly Cause[] {
  const sources = CLAIM_SOURCES.filter((source) => claim[source] !== undefined);
  return [
    ...causeIf(sources.length !== 1, {
      reason: "FieldValueInvalid",
      field: path,
      message: `must specify ${sources.length === 0 ? "one" : "only one"} of: ${CLAIM_SOURCES.join(", ")}`,
    }),
    ...sources.flatMap((source) =>
      causeIf(!isObjectName(claim[source] ?? ""), {
        reason: "FieldValueInvalid",
        field: `${path}.${source}`,
        message: `"${claim[source] ?? ""}" must be a lowercase DNS subdomain`,
      }),
    ),
  ];
}

const claimsAreValid: Rule = ({ spec, base }) => {
  const knownNames = new Set<string>();
  return (spec.resourceClaims ?? []).flatMap((claim, index) => {
    const path = `${base}.resourceClaims[${String(index)}]`;
    const isDuplicate = knownNames.has(claim.name);
    knownNames.add(claim.name);
    return [...listNameCauses(claim, path, isDuplicate), ...listSourceCauses(claim, path)];
  });
};

/** Rules in KubeVirt's order. The last rule checks the resource claims themselves. */
export const CLAIMED_NETWORK_RULES: readonly Rule[] = [
  noMultusBeside,
  bindingFitsClaim,
  claimIsNamed,
  claimIsDefined,
  requestIsUsedOnce,
  claimsAreValid,
];

export function listNewClaimFields(
  before: VmiSpec | undefined,
  after: VmiSpec,
  base: string,
): readonly string[] {
  const networks = (after.networks ?? []).flatMap(({ name, resourceClaim }, index) => {
    const old = findByName(before?.networks, name)?.resourceClaim;
    return resourceClaim === undefined || JSON.stringify(resourceClaim) === JSON.stringify(old)
      ? []
      : [`${networkPath(base, index)}.resourceClaim`];
  });
  const oldClaims = new Set((before?.resourceClaims ?? []).map((claim) => JSON.stringify(claim)));
  const hasNewClaim = (after.resourceClaims ?? []).some(
    (claim) => !oldClaims.has(JSON.stringify(claim)),
  );
  return [...networks, ...(hasNewClaim ? [`${base}.resourceClaims`] : [])];
}
