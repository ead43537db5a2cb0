// SPDX-License-Identifier: Apache-2.0
// Whether the NICs of a running guest whose network an edit changes can be swapped there.
import { isAbsent, isDefaultNetwork, type BindingRegistry, type Cause } from "@patchbay/api";
import { findByName, nicsOf, type Nics } from "../../spec/nics.ts";
import { networkSwapOf } from "../vm/network-swaps.ts";
import type { SpecEdit } from "./plugged-bindings.ts";

/** Whether the iface of that name stays: it is neither plugged nor on its way out. */
function stays(nics: readonly Nics[], name: string): boolean {
  const ifaces = nics.map((each) => findByName(each.ifaces, name));
  return ifaces.every((iface) => iface !== undefined && !isAbsent(iface));
}

/** NICs that an edit of a VMI puts on a network to which they cannot be swapped while the guest runs; a VM's wait for a restart. */
export function fixedNetworkCauses(
  { before, after, base }: SpecEdit,
  bindings: BindingRegistry,
): readonly Cause[] {
  const [actual, desired] = [nicsOf(before), nicsOf(after)];
  return desired.networks.flatMap((network, index): readonly Cause[] => {
    const { name, multus } = network;
    const old = findByName(actual.networks, name);
    // The default network has a rule of its own.
    if (old === undefined || isDefaultNetwork(old) || !stays([actual, desired], name)) return [];
    const isSame = multus?.networkName === old.multus?.networkName && !isDefaultNetwork(network);
    if (isSame || networkSwapOf({ desired, actual, bindings }, name) !== undefined) return [];
    const message = `network '${name}' cannot be changed while the VMI runs: only an interface with binding bridge can be swapped to another secondary network; remove the interface and add it again`;
    return [
      { reason: "FieldValueForbidden", field: `${base}.networks[${String(index)}]`, message },
    ];
  });
}
