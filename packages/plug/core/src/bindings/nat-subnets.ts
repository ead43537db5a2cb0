// SPDX-License-Identifier: Apache-2.0
// Which addresses guest and gateway have behind the translation of addresses.
import {
  isLinkLocal,
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

/** The subnets of a guest behind a pod NIC with those addresses: one for each family that the NIC has. */
export function natSubnetsOf(
  network: Network | undefined,
  podAddresses: readonly string[],
): { readonly ipv4?: NatSubnet; readonly ipv6?: NatSubnet } {
  // Nobody beyond the link has another address, or is answered at it.
  const versions = podAddresses
    .filter((text) => !isLinkLocal(text))
    .flatMap((text) => parseIp(text) ?? []);
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
