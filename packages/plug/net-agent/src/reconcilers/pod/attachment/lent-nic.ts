// SPDX-License-Identifier: Apache-2.0
// What did a pod NIC have when its plugin had made it? The guest owned its addresses meanwhile, but plugins look for them
// on the NIC to find what they must undo (bridge removes masquerading rules by them); and a card that goes back to the
// machine (host-device) goes with its own MAC, not the guest's.
import { isNicMac, normalizeMac } from "@patchbay/api";
import type { AttachmentRequest, CniResult, LentNic } from "@patchbay/core/ports";

interface Nic {
  readonly index: number;
  readonly mac: string;
}

/** What the result says of the NIC that was asked for. */
function nicOf(result: CniResult, interfaceName: string): Nic {
  const nics = result.interfaces ?? [];
  const index = nics.findIndex(
    ({ name, sandbox }) => name === interfaceName && sandbox !== undefined && sandbox !== "",
  );
  return { index, mac: nics[index]?.mac ?? "" };
}

/** A NIC whose plugin did not set the MAC that was asked for got it from somebody else. */
function isMacForeign({ args }: AttachmentRequest, { mac }: Nic): boolean {
  const asked = args.find(([key]) => key === "MAC")?.[1];
  return asked !== undefined && isNicMac(mac) && normalizeMac(asked) !== normalizeMac(mac);
}

/** What the NIC of an attachment had after ADD; nothing but its name where no result is known. */
export function lentNicOf(request: AttachmentRequest, result: CniResult | undefined): LentNic {
  const { interfaceName: name } = request;
  if (result === undefined) return { name, addresses: [] };
  const nic = nicOf(result, name);
  const addresses = (result.ips ?? [])
    .filter(({ interface: owner }) => owner === undefined || owner === nic.index)
    .map(({ address }) => address);
  return { name, ...(isMacForeign(request, nic) && { mac: nic.mac }), addresses };
}
