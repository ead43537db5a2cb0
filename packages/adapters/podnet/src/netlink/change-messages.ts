// SPDX-License-Identifier: Apache-2.0
// What is the kernel told for one change of a namespace's links?
import { IP_BITS, parseIp, type IpPrefix } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import {
  SWITCH_FRAMES_MASK,
  type AddressFlag,
  type LinkChange,
  type LinkSettings,
} from "../link-change.ts";
import { ACK, messageOf } from "./message.ts";
import {
  AF_BRIDGE,
  AF_INET,
  AF_INET6,
  FLAGS,
  FLOODING,
  GROUP_FORWARD_MASK,
  HEAD,
  IFA,
  IFLA,
  INFO,
  LEARNING,
  NDA,
  NUD,
  PLAIN_BRIDGE,
  RTM,
} from "./rtnetlink.ts";
import { attribute, macBytes, nested, u16, u32, u8 } from "./write.ts";

/** Index of a link by its name. */
export type IndexOf = (name: string) => number;

/** Changes that are one message; a tap is made by a device of its own, and a flush asks before. */
export type OneMessage = Exclude<LinkChange, { readonly op: "addTap" | "flushAddresses" }>;

/** Source: linux/netlink.h: NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE */
export const [CREATE, EXCLUSIVE] = [0x400, 0x200];
const REPLACE = 0x100;
/** Source: linux/neighbour.h */
const [NTF_MASTER, NUD_REACHABLE] = [0x04, 0x02];
/** Attributes of the address family that say whether the kernel makes a link-local address. Source: linux/if_link.h */
const [IFLA_AF_SPEC, ADDR_GEN_MODE, GEN_NONE] = [26, 8, 1];
/** Flags of an address, and the attribute that has them. Source: linux/if_addr.h */
const IFA_FLAGS = 8;
const ADDRESS_FLAGS: Readonly<Record<AddressFlag, number>> = { nodad: 0x02, noprefixroute: 0x200 };
const PORT_KIND = 4;

const PLAIN = nested(
  IFLA.info,
  attribute(INFO.kind, "bridge"),
  nested(
    INFO.data,
    attribute(PLAIN_BRIDGE.forwardDelay, u32(0)),
    attribute(PLAIN_BRIDGE.spanningTree, u32(0)),
    attribute(PLAIN_BRIDGE.snooping, u8(0)),
  ),
);

/** Attributes of a link, and flags with the mask of those that are set. */
interface LinkParts {
  readonly parts?: readonly Uint8Array[];
  readonly set?: number;
  readonly mask?: number;
}

function linkMessage(
  { type, flags = 0, index = 0 }: { type: number; flags?: number; index?: number },
  { set = 0, mask = 0, parts = [] }: LinkParts,
): Uint8Array {
  const head = Buffer.alloc(HEAD.link);
  head.writeInt32LE(index, 4);
  head.writeUInt32LE(set, 8);
  head.writeUInt32LE(mask, 12);
  return messageOf({ type, flags: ACK | flags }, Buffer.concat([head, ...parts]));
}

/** The same value of some attributes of a port of a bridge. */
function portParts(types: readonly number[], value: Uint8Array): LinkParts {
  const data = types.map((type) => attribute(type, value));
  const kind = attribute(PORT_KIND, "bridge");
  return { parts: [nested(IFLA.info, kind, nested(INFO.portData, ...data))] };
}

type Settings = Required<LinkSettings>;

/** How each setting is said: none can be forgotten. */
const SETTINGS: {
  readonly [Name in keyof Settings]: (value: Settings[Name], indexOf: IndexOf) => LinkParts;
} = {
  mac: (mac) => ({ parts: [attribute(IFLA.address, macBytes(mac))] }),
  mtu: (mtu) => ({ parts: [attribute(IFLA.mtu, u32(mtu))] }),
  master: (name, indexOf) => ({ parts: [attribute(IFLA.master, u32(indexOf(name)))] }),
  arp: (value) => ({ set: value ? 0 : FLAGS.noArp, mask: FLAGS.noArp }),
  addressGeneration: () => ({
    parts: [nested(IFLA_AF_SPEC, nested(AF_INET6, attribute(ADDR_GEN_MODE, u8(GEN_NONE))))],
  }),
  up: (value) => ({ set: value ? FLAGS.up : 0, mask: FLAGS.up }),
  learning: (value) => portParts([LEARNING], u8(Number(value))),
  flooding: (value) => portParts(FLOODING, u8(Number(value))),
  passesSwitchFrames: (value) =>
    portParts([GROUP_FORWARD_MASK], u16(value ? SWITCH_FRAMES_MASK : 0)),
};

/** The parts of one setting; none where it is absent. */
function partsOf(name: keyof Settings, settings: LinkSettings, indexOf: IndexOf): LinkParts {
  const value = settings[name];
  if (value === undefined) return {};
  // Value and function are of the same name.
  const say = SETTINGS[name] as (value: Settings[keyof Settings], indexOf: IndexOf) => LinkParts;
  return say(value, indexOf);
}

function settingsParts(settings: LinkSettings, indexOf: IndexOf): LinkParts {
  // Names of our own table.
  const names = Object.keys(SETTINGS) as (keyof Settings)[];
  const all = names.map((name) => partsOf(name, settings, indexOf));
  return {
    parts: all.flatMap(({ parts = [] }) => parts),
    set: all.reduce((bits, { set = 0 }) => bits | set, 0),
    mask: all.reduce((bits, { mask = 0 }) => bits | mask, 0),
  };
}

/** Bytes of an address, which is as long as its family says. */
export function addressBytes({ version, value }: IpPrefix): Uint8Array {
  return Buffer.from(value.toString(16).padStart(IP_BITS[version] / 4, "0"), "hex");
}

function addressMessage(
  { type, flags }: { readonly type: number; readonly flags: number },
  at: { readonly address: string; readonly index: number; readonly bits: number },
): Uint8Array {
  const { address, index, bits } = at;
  const ip = parseIp(address);
  if (ip === undefined) {
    throw new AppError("PODNET_ARGUMENT_INVALID", {
      reason: `${JSON.stringify(address)} is not an IP address`,
    });
  }
  const head = Buffer.alloc(HEAD.address);
  head.set([ip.version === 4 ? AF_INET : AF_INET6, ip.length]);
  head.writeUInt32LE(index, 4);
  const bytes = addressBytes(ip);
  const parts = [
    attribute(IFA.local, bytes),
    attribute(IFA.address, bytes),
    ...(bits === 0 ? [] : [attribute(IFA_FLAGS, u32(bits))]),
  ];
  return messageOf({ type, flags: ACK | flags }, Buffer.concat([head, ...parts]));
}

/** An address that is to go, as the kernel told of it. */
export function removalOf(address: string, index: number): Uint8Array {
  return addressMessage({ type: RTM.deleteAddress, flags: 0 }, { address, index, bits: 0 });
}

function forwardingMessage(
  { op, mac }: Extract<LinkChange, { readonly op: "replaceForwarding" | "deleteForwarding" }>,
  index: number,
): Uint8Array {
  const isRemoval = op === "deleteForwarding";
  const head = Buffer.alloc(HEAD.neighbour);
  head[0] = AF_BRIDGE;
  head.writeInt32LE(index, 4);
  head.writeUInt16LE(isRemoval ? NUD.permanent : NUD.static | NUD_REACHABLE, 8);
  head[10] = NTF_MASTER;
  const body = Buffer.concat([head, attribute(NDA.mac, macBytes(mac))]);
  const type = isRemoval ? RTM.deleteNeighbour : RTM.newNeighbour;
  return messageOf({ type, flags: ACK | (isRemoval ? 0 : CREATE | REPLACE) }, body);
}

/** @throws AppError with PODNET_FAILED for an address that is none, and what `indexOf` throws */
export function changeMessageOf(change: OneMessage, indexOf: IndexOf): Uint8Array {
  const { link } = change;
  switch (change.op) {
    case "addBridge": {
      const parts = [attribute(IFLA.name, link), PLAIN];
      return linkMessage({ type: RTM.newLink, flags: CREATE | EXCLUSIVE }, { parts });
    }
    case "makePlain":
      return linkMessage({ type: RTM.newLink, index: indexOf(link) }, { parts: [PLAIN] });
    case "setLink": {
      const parts = settingsParts(change.settings, indexOf);
      return linkMessage({ type: RTM.newLink, index: indexOf(link) }, parts);
    }
    case "deleteLink":
      return linkMessage({ type: RTM.deleteLink, index: indexOf(link) }, {});
    case "addAddress": {
      const bits = change.flags.reduce((sum, flag) => sum | ADDRESS_FLAGS[flag], 0);
      const at = { address: change.address, index: indexOf(link), bits };
      return addressMessage({ type: RTM.newAddress, flags: CREATE | EXCLUSIVE }, at);
    }
    case "deleteAddress":
      return removalOf(change.address, indexOf(link));
    case "replaceForwarding":
    case "deleteForwarding":
      return forwardingMessage(change, indexOf(link));
  }
}
