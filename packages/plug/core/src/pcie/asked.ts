// SPDX-License-Identifier: Apache-2.0
// The address that the owner of a device asks for.
import { parsePciAddress, type PciAddress } from "@patchbay/domain";

/** As a field of the specification has it; KubeVirt's short form leaves the domain out. */
export function askedPciAddress(text: string | undefined): PciAddress | undefined {
  if (text === undefined || text === "") return undefined;
  return parsePciAddress(text.split(":").length === 2 ? `0000:${text}` : text);
}
