// SPDX-License-Identifier: Apache-2.0
// What CNI gave to a NIC: the addresses that somebody set, and the routes that the kernel did not make itself.
import { IP_BITS } from "@patchbay/api";
import type { NicAddresses, NicRoute } from "@patchbay/core";
import { attributesIn, findNumber, type Message } from "./message.ts";
import { addressIn, addressText, HEAD, RTM, versionIn, viewOf } from "./rtnetlink.ts";

/** Flags of an address, and the attribute that has all of them. Source: linux/if_addr.h */
export const IFA_FLAGS = 8;
export const ADDRESS = { temporary: 0x01, permanent: 0x80 };
/** Attributes of a route. Source: linux/rtnetlink.h */
export const RTA = { destination: 1, link: 4, gateway: 5, table: 15 };
export const MAIN_TABLE = 254;
/** RTPROT_KERNEL, RTPROT_RA: routes that the kernel makes of addresses and of router advertisements. */
const MADE_BY_KERNEL = [2, 9];
/** RTM_F_CLONED: a copy that the kernel keeps for itself. */
export const CLONED = 0x200;

/** The others the kernel makes itself, or takes back after a time. */
function isGiven(message: Message): boolean {
  const view = viewOf(message);
  const attributes = attributesIn(message.body, HEAD.address);
  const flags = findNumber(attributes, IFA_FLAGS) ?? view.getUint8(2);
  const isTemporary = versionIn(view) === 6 && (flags & ADDRESS.temporary) !== 0;
  const isGlobal = view.getUint8(3) === 0;
  return isGlobal && (flags & ADDRESS.permanent) !== 0 && !isTemporary;
}

function givenAddressIn(message: Message, index: number): readonly string[] {
  const told = addressIn(message);
  return told?.index === index && isGiven(message) ? [told.text] : [];
}

function routeIn(message: Message, index: number): readonly NicRoute[] {
  if (message.type !== RTM.newRoute || message.body.length < HEAD.route) return [];
  const view = viewOf(message);
  const attributes = attributesIn(message.body, HEAD.route);
  const table = findNumber(attributes, RTA.table) ?? view.getUint8(4);
  const isOurs = table === MAIN_TABLE && findNumber(attributes, RTA.link) === index;
  const isMade = MADE_BY_KERNEL.includes(view.getUint8(5));
  if (!isOurs || isMade || (view.getUint32(8, true) & CLONED) !== 0) return [];
  const version = versionIn(view);
  const all = new Uint8Array(IP_BITS[version] / 8);
  const to = addressText(version, attributes.get(RTA.destination) ?? all);
  const gateway = attributes.get(RTA.gateway);
  const destination = `${to}/${String(view.getUint8(1))}`;
  return [
    { destination, ...(gateway === undefined ? {} : { gateway: addressText(version, gateway) }) },
  ];
}

/** Of what was told, what the NIC of that index was given; in the order of the kernel. */
export function givenIn(messages: readonly Message[], index: number): NicAddresses {
  return {
    addresses: messages.flatMap((message) => givenAddressIn(message, index)),
    routes: messages.flatMap((message) => routeIn(message, index)),
  };
}
