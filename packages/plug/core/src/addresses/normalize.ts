// SPDX-License-Identifier: Apache-2.0
// IP addresses with leading zeros, as KubeVirt reads them.
import { parseSloppyIp, printAddress } from "@patchbay/api";

/** The address in its usual form, without leading zeros; text that is no address stays as it is. */
export function normalizeAddress(text: string): string {
  const ip = parseSloppyIp(text);
  return ip === undefined ? text : printAddress(ip);
}
