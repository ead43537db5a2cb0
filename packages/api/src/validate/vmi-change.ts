// SPDX-License-Identifier: Apache-2.0
// Which changes of networks and ifaces are possible while the guest runs.
import { unbuiltPartOf } from "./unsupported.ts";
import type { Cause } from "../kinds/meta.ts";
import { isAbsent, isDefaultNetwork, type Iface, type Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { ifacePath } from "./rule.ts";

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

/** Whether the edit asks for the iface: it was not there, or on its way out. */
function isPlugged({ name }: Iface, before: VmiSpec): boolean {
  const old = before.domain.devices?.interfaces?.find((iface) => iface.name === name);
  return old === undefined || isAbsent(old);
}

/** Ifaces that an edit plugs into a running guest have a binding that is built; those of before are not judged. */
export function validatePluggedBindings(
  before: VmiSpec,
  after: VmiSpec,
  base: string,
): readonly Cause[] {
  return (after.domain.devices?.interfaces ?? []).flatMap((iface, index): readonly Cause[] => {
    const unbuilt = unbuiltPartOf(iface);
    if (unbuilt === undefined || isAbsent(iface) || !isPlugged(iface, before)) return [];
    const field = `${ifacePath(base, index)}.${unbuilt.field}`;
    return [{ reason: "FieldValueNotSupported", field, message: unbuilt.message }];
  });
}
