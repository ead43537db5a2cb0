// SPDX-License-Identifier: Apache-2.0
// Which changes of networks and ifaces are possible while the guest runs.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { isDefaultNetwork, type Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";

function sameSource(one: Network, other: Network): boolean {
  return (
    (one.pod === undefined) === (other.pod === undefined) &&
    one.multus?.networkName === other.multus?.networkName
  );
}

/** The pod has its default network from the start to the end. */
export function validateVmiNetworkChange(before: VmiSpec, after: VmiSpec): readonly Cause[] {
  const kept = (before.networks ?? []).filter(isDefaultNetwork);
  const lost = kept.filter(
    (network) =>
      !(after.networks ?? []).some(
        (other) => other.name === network.name && sameSource(network, other),
      ),
  );
  return lost.map((network) => ({
    reason: "FieldValueForbidden",
    field: "spec.networks",
    message: `network '${network.name}' is the default network of the pod and cannot be removed or replaced while the VMI runs`,
  }));
}
