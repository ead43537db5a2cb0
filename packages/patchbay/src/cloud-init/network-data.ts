// SPDX-License-Identifier: Apache-2.0
// Network data for cloud-init: each NIC by its MAC. Pure. Source: cloud-init, "Networking config version 2".
import { stringify } from "yaml";

/** A NIC of a new VM. */
export interface NewNic {
  /** Name of the interface in the VM. */
  readonly name: string;
  readonly mac: string;
}

/** Of the default routes that networks offer, the pod network's has the lowest metric. Source: systemd.network(5), 1024. */
const ROUTE_METRIC = 2048;

/** DHCP on every NIC, by MAC: guests name NICs as they like. The first NIC is on the pod network. */
export function makeNetworkData(nics: readonly NewNic[]): string {
  const ethernets = nics.map(({ name, mac }, index) => {
    const isFirst = index === 0;
    const secondary = { optional: true, "dhcp4-overrides": { "route-metric": ROUTE_METRIC } };
    return [name, { match: { macaddress: mac }, dhcp4: true, ...(!isFirst && secondary) }] as const;
  });
  return stringify({ version: 2, ethernets: Object.fromEntries(ethernets) });
}
