// SPDX-License-Identifier: Apache-2.0
// Where the devices of a VMI that are no NICs are, as text that is kept.
import { networkConfigOf, type PcieTopology, type VirtualMachineInstance } from "@patchbay/api";
import { printPciAddress } from "@patchbay/domain";
import { devicesToPlace } from "./devices.ts";
import { planVmiTopology } from "./topology.ts";

/**
 * The devices with their addresses, which the cluster's configuration does not change; none of a VMI that cannot be laid
 * out.
 */
export function printedDevicesOf(
  vmi: VirtualMachineInstance,
): NonNullable<PcieTopology["devices"]> {
  const plan = planVmiTopology(vmi, networkConfigOf(undefined));
  if (!plan.ok) return [];
  return devicesToPlace(vmi).flatMap(({ name }) => {
    const address = plan.topology.fixed.get(name);
    return address === undefined ? [] : [{ name, pciAddress: printPciAddress(address) }];
  });
}
