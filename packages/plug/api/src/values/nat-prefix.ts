// SPDX-License-Identifier: Apache-2.0
// The subnet that a guest is in with masquerade. Source: KubeVirt pkg/network/link/address.go, api DefaultVMCIDR.
import { IP_BITS, parseSloppyIp, type IpPrefix } from "./ip.ts";

const DEFAULTS = { 4: "10.0.2.0/24", 6: "fd10:0:2::/120" } as const;
/** Room for the network's own address, the gateway and the guest. */
const HOST_BITS_MIN = 2;

/** The subnet that is said, or KubeVirt's; undefined when what is said is none, or too small. */
export function natPrefixOf(said: string | undefined, version: 4 | 6): IpPrefix | undefined {
  const prefix = parseSloppyIp(said === undefined || said === "" ? DEFAULTS[version] : said);
  if (prefix?.version !== version) return undefined;
  return prefix.length <= IP_BITS[version] - HOST_BITS_MIN ? prefix : undefined;
}
