// SPDX-License-Identifier: Apache-2.0
// Links, addresses and forwarding entries as the kernel tells them by rtnetlink.
import { printAddress } from "@patchbay/api";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import { attributesIn, findNumber, textIn, type Attributes, type Message } from "./message.ts";

/** Questions and their answers. Source: linux/rtnetlink.h */
export const RTM = {
  deleteLink: 17,
  deleteAddress: 21,
  deleteNeighbour: 29,
  newLink: 16,
  getLink: 18,
  newAddress: 20,
  getAddress: 22,
  newRoute: 24,
  deleteRoute: 25,
  getRoute: 26,
  newNeighbour: 28,
  getNeighbour: 30,
};
/** Heads before attributes, in bytes. Source: struct ifinfomsg, ifaddrmsg, ndmsg, rtmsg */
export const HEAD = { link: 16, address: 8, neighbour: 12, route: 12 };
/** Source: linux/socket.h */
export const AF_BRIDGE = 7;
export const AF_INET = 2;
export const AF_INET6 = 10;

/** Version of the addresses that a message is about; its body begins with the family. */
export function versionIn(view: DataView): 4 | 6 {
  return view.getUint8(0) === AF_INET ? 4 : 6;
}

/** Attributes of a link. Source: linux/if_link.h */
export const IFLA = {
  address: 1,
  name: 3,
  mtu: 4,
  master: 10,
  info: 18,
  alias: 20,
  netnsFd: 28,
  mask: 29,
  permanentAddress: 54,
};
/** Those of its kind. */
export const INFO = { kind: 1, data: 2, portData: 5 };
/** Those of a bridge that forwards at once, all of which are zero. */
export const PLAIN_BRIDGE = { forwardDelay: 1, spanningTree: 5, snooping: 23 };
/** Of a port of a bridge: whether it learns. */
export const LEARNING = 8;
/** Whether frames leave by it that are to who is not known, to many, to all. */
export const FLOODING: readonly number[] = [9, 27, 30];
/** Which groups of frames for the next bridge pass, 16 bits. */
export const GROUP_FORWARD_MASK = 31;
/** Of a tap. */
export const MULTI_QUEUE = 7;
/** Source: linux/if.h */
export const FLAGS = { up: 0x1, noArp: 0x80, carrier: 0x10000 };
/** Attributes of an address. Source: linux/if_addr.h */
export const IFA = { address: 1, local: 2 };
/** Attributes and states of a forwarding entry. Source: linux/neighbour.h */
export const NDA = { mac: 2, master: 9 };
export const NUD = { stale: 0x04, static: 0x40, permanent: 0x80 };

/** A MAC as text; empty where there is none. */
export function macOf(bytes: Uint8Array | undefined): string {
  return [...(bytes ?? [])].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

/** The body of a message. */
export function viewOf({ body }: Message): DataView {
  return new DataView(body.buffer, body.byteOffset, body.length);
}

/** One link, and the index of the bridge that it is a port of. */
interface ToldLink {
  readonly link: Omit<WiredLink, "addresses" | "master">;
  readonly master: number | undefined;
}

/** Source: linux/drivers/net/tun.c */
function queuesOf(kind: string, data: Attributes): Pick<WiredLink, "takesQueues"> {
  const several = kind === "tun" ? findNumber(data, MULTI_QUEUE) : undefined;
  return several === undefined ? {} : { takesQueues: several === 0 ? "one" : "many" };
}

/** What every reader of a link wants, and the attributes for those who want more. */
interface LinkWords {
  readonly base: Pick<WiredLink, "name" | "index" | "kind" | "mac" | "mtu" | "up" | "carrier">;
  readonly flags: number;
  readonly attributes: Attributes;
  /** Of its kind, and as a port of a bridge. */
  readonly data: Attributes;
  readonly port: Attributes;
}

/** A message as a link; undefined: it is about something else. */
export function linkWordsIn(message: Message): LinkWords | undefined {
  if (message.type !== RTM.newLink || message.body.length < HEAD.link) return undefined;
  const view = viewOf(message);
  const flags = view.getUint32(8, true);
  const attributes = attributesIn(message.body, HEAD.link);
  const info = attributesIn(attributes.get(IFLA.info));
  const base = {
    name: textIn(attributes, IFLA.name),
    index: view.getInt32(4, true),
    kind: textIn(info, INFO.kind),
    mac: macOf(attributes.get(IFLA.address)),
    mtu: findNumber(attributes, IFLA.mtu) ?? 0,
    up: (flags & FLAGS.up) !== 0,
    carrier: (flags & FLAGS.carrier) !== 0,
  };
  const data = attributesIn(info.get(INFO.data));
  return { base, flags, attributes, data, port: attributesIn(info.get(INFO.portData)) };
}

function linkIn(message: Message): ToldLink | undefined {
  const words = linkWordsIn(message);
  if (words === undefined) return undefined;
  const { base, flags, attributes, data, port } = words;
  return {
    link: {
      ...base,
      ...queuesOf(base.kind, data),
      noArp: (flags & FLAGS.noArp) !== 0,
      plain:
        base.kind === "bridge" &&
        Object.values(PLAIN_BRIDGE).every((type) => findNumber(data, type) === 0),
      learning: findNumber(port, LEARNING) !== 0,
      flooding: FLOODING.every((type) => findNumber(port, type) !== 0),
      passesSwitchFrames: (port.get(GROUP_FORWARD_MASK) ?? []).some((byte) => byte !== 0),
    },
    master: findNumber(attributes, IFLA.master),
  };
}

/** An address as text, from its bytes. */
export function addressText(version: 4 | 6, bytes: Uint8Array): string {
  return printAddress({ version, value: BigInt(`0x${Buffer.from(bytes).toString("hex")}`) });
}

interface ToldAddress {
  readonly index: number;
  /** ADDRESS/LENGTH */
  readonly text: string;
}

/** Of a link to one other end the address of this one. */
export function addressIn(message: Message): ToldAddress | undefined {
  if (message.type !== RTM.newAddress || message.body.length < HEAD.address) return undefined;
  const view = viewOf(message);
  const attributes = attributesIn(message.body, HEAD.address);
  const bytes = attributes.get(IFA.local) ?? attributes.get(IFA.address);
  if (bytes === undefined) return undefined;
  const address = addressText(versionIn(view), bytes);
  return { index: view.getUint32(4, true), text: `${address}/${String(view.getUint8(1))}` };
}

/** What was told of the links, sorted by name; addresses in the order of the kernel. */
export function linksIn(messages: readonly Message[]): readonly WiredLink[] {
  const told = messages.flatMap((message) => linkIn(message) ?? []);
  const addresses = messages.flatMap((message) => addressIn(message) ?? []);
  const names = new Map(told.map(({ link }) => [link.index, link.name]));
  return told
    .map(({ link, master }) => {
      const bridge = names.get(master ?? 0);
      const own = addresses.filter(({ index }) => index === link.index).map(({ text }) => text);
      return { ...link, ...(bridge === undefined ? {} : { master: bridge }), addresses: own };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

const STATES: ReadonlyMap<number, string> = new Map([
  [NUD.permanent, "permanent"],
  [NUD.static, "static"],
  [NUD.stale, "stale"],
]);

function entryIn(
  message: Message,
  names: ReadonlyMap<number, string>,
): ForwardingEntry | undefined {
  if (message.type !== RTM.newNeighbour || message.body.length < HEAD.neighbour) return undefined;
  const view = viewOf(message);
  const attributes = attributesIn(message.body, HEAD.neighbour);
  const device = names.get(view.getInt32(4, true));
  if (device === undefined || !attributes.has(NDA.master)) return undefined;
  const state = STATES.get(view.getUint16(8, true)) ?? "";
  return { mac: macOf(attributes.get(NDA.mac)), device, state };
}

/** Entries of the bridges' forwarding databases; those of the devices themselves are left out. */
export function forwardingIn(
  messages: readonly Message[],
  links: readonly WiredLink[],
): readonly ForwardingEntry[] {
  const names = new Map(links.map(({ index, name }) => [index, name]));
  return messages.flatMap((message) => entryIn(message, names) ?? []);
}
