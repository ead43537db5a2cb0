// SPDX-License-Identifier: Apache-2.0
// Which of the links that are there is the NIC that was lent? It may have another name, index and MAC by now.
import { normalizeMac } from "@patchbay/api";
import type { NodeNic } from "@patchbay/core/ports";
import type { WiredLink } from "../links.ts";
import { attributesIn, textIn, type Attributes, type Message } from "../netlink/message.ts";
import { HEAD, IFLA, linksIn, macOf, RTM, viewOf } from "../netlink/rtnetlink.ts";

/** A link with what tells it from others. */
export interface SeenNic extends WiredLink {
  readonly alias: string;
  /** Empty: the kernel knows none. */
  readonly permanentMac: string;
}

function attributesByIndex(messages: readonly Message[]): ReadonlyMap<number, Attributes> {
  const links = messages.filter(
    ({ type, body }) => type === RTM.newLink && body.length >= HEAD.link,
  );
  return new Map(
    links.map((message) => [
      viewOf(message).getInt32(4, true),
      attributesIn(message.body, HEAD.link),
    ]),
  );
}

/** The links that were told of, by index. */
export function seenNicsIn(messages: readonly Message[]): readonly SeenNic[] {
  const attributes = attributesByIndex(messages);
  return linksIn(messages)
    .map((link): SeenNic => {
      const own = attributes.get(link.index) ?? new Map<number, Uint8Array>();
      const permanentMac = macOf(own.get(IFLA.permanentAddress));
      return { ...link, alias: textIn(own, IFLA.alias), permanentMac };
    })
    .toSorted((a, b) => a.index - b.index);
}

/**
 * The NIC among links. Hardware is known by the MAC that its maker gave to it. Else the name decides, which plugin host-device
 * keeps as the alias: MACs of VLANs, bonds and bridges are those of others.
 */
export function findLent(links: readonly SeenNic[], nic: NodeNic): SeenNic | undefined {
  const alike = links.filter(({ kind }) => kind === nic.kind);
  const { permanentMac } = nic;
  if (permanentMac !== undefined) return alike.find((link) => link.permanentMac === permanentMac);
  return (
    alike.find(({ alias }) => alias === nic.name) ??
    alike.find(({ name, mac }) => name === nic.name && normalizeMac(mac) === normalizeMac(nic.mac))
  );
}
