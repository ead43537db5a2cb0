// SPDX-License-Identifier: Apache-2.0
export { frameBytes } from "./frame.ts";
export {
  parseNatPrefix,
  IP_BITS,
  isWithin,
  toNetworkAddress,
  parseIp,
  parseSloppyIp,
  printAddress,
  type IpPrefix,
  isAddressWithin,
  isLinkLocal,
  toLinkLocal,
} from "./ip.ts";
export { findByName, firstByKey, memoize } from "./memoize.ts";
export { isNicMac, MAC_BYTES, normalizeMac, parseMac } from "./mac.ts";
export { isLinkName, parseNadName, type NadName } from "./name-syntax.ts";
export { isPciAddress } from "./pci.ts";
export { parseBytes, parseQuantity } from "./quantity.ts";
