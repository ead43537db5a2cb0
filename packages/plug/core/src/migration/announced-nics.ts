// SPDX-License-Identifier: Apache-2.0
// Which NICs of a guest are its networks to be told of, where they may have heard it in another pod?
import { wiringOf } from "../iface/links/wiring.ts";
import { isInPod, type NodeVmFacts } from "../plan/node/node-vm.ts";
import type { AnnouncedNic } from "../ports/index.ts";

/**
 * Those that have a place of their own on a network; what is hidden behind its pod nobody else knows. Addresses are what CNI
 * gave to the NIC: the guest may say anything of its own.
 */
export function announcedNics({ ifaces }: NodeVmFacts): readonly AnnouncedNic[] {
  return ifaces
    .filter((iface) => isInPod(iface) && iface.links.podInterface)
    .flatMap((iface) => {
      const wiring = wiringOf(iface);
      if (wiring?.kind !== "bridge") return [];
      const { podInterfaceName, mac } = wiring;
      return [{ podInterfaceName, mac, addresses: iface.remembered?.addresses ?? [] }];
    });
}
