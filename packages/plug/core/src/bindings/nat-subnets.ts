// SPDX-License-Identifier: Apache-2.0
// Which addresses guest and gateway have behind the translation of addresses.
import {
  IP_BITS,
  isWithin,
  natPrefixOf,
  networkOf,
  parseIp,
  printAddress,
  type IpPrefix,
  type Network,
} from "@patchbay/api";
import type { NatSubnet } from "./pod-wiring.ts";

/** The gateway is the first host of the subnet, the guest the second. Source: KubeVirt pkg/network/link/address.go */
function natSubnetOf(prefix: IpPrefix): NatSubnet {
  const first = networkOf(prefix);
  const [gateway, guest] = ([1n, 2n] as const).map((step) =>
    printAddress({ version: first.version, value: first.value + step }),
  );
  return { gateway: `${gateway ?? ""}/${String(prefix.length)}`, guest: guest ?? "" };
}

/** Nobody beyond the link has such an address, or is answered at it. */
const LINK_SCOPES: readonly IpPrefix[] = ["169.254.0.0/16", "fe80::/10"].flatMap(
  (text) => parseIp(text) ?? [],
);

function isGlobal(address: IpPrefix): boolean {
  const alone = { ...address, length: IP_BITS[address.version] };
  return !LINK_SCOPES.some((scope) => isWithin(alone, scope));
}

/** The subnets of a guest behind a pod NIC with those addresses: one for each family that the NIC has. */
export function natSubnetsOf(
  network: Network | undefined,
  podAddresses: readonly string[],
): { readonly ipv4?: NatSubnet; readonly ipv6?: NatSubnet } {
  const versions = podAddresses.flatMap((text) => parseIp(text) ?? []).filter(isGlobal);
  const pod = network?.pod ?? {};
  const said = { 4: pod.vmNetworkCIDR, 6: pod.vmIPv6NetworkCIDR };
  const subnet = (version: 4 | 6): NatSubnet | undefined => {
    const prefix = natPrefixOf(said[version], version);
    const isThere = versions.some((address) => address.version === version);
    return isThere && prefix !== undefined ? natSubnetOf(prefix) : undefined;
  };
  const [ipv4, ipv6] = [subnet(4), subnet(6)];
  return { ...(ipv4 && { ipv4 }), ...(ipv6 && { ipv6 }) };
}
