// SPDX-License-Identifier: Apache-2.0
// The commands of a plan, in the words of iproute2, as messages to the kernel: what `ip -batch` and `bridge -batch` would
// say. A word that no plan uses is a fault of ours.
import { IP_BITS, parseIp, type IpPrefix } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { ACK, messageOf } from "./message.ts";
import {
  AF_BRIDGE,
  FLAGS,
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
import { attribute, macBytes, nested, u32, u8 } from "./write.ts";

/** What is done for one command. */
export type Deed =
  | { readonly kind: "message"; readonly message: Uint8Array }
  /** A tap is made by a device of its own, not by netlink. Source: linux/drivers/net/tun.c */
  | {
      readonly kind: "makeTap";
      readonly name: string;
      readonly owner: number;
      readonly takesMany: boolean;
    }
  | { readonly kind: "flush"; readonly name: string };

/** Index of a link by its name. */
export type IndexOf = (name: string) => number;

/** Source: linux/netlink.h: NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE */
const [CREATE, EXCLUSIVE, REPLACE] = [0x400, 0x200, 0x100];
/** Source: linux/neighbour.h */
const [NTF_MASTER, NUD_REACHABLE] = [0x04, 0x02];
/** Attributes of the address family that say whether the kernel makes a link-local address. Source: linux/if_link.h */
const [IFLA_AF_SPEC, AF_INET6, ADDR_GEN_MODE, GEN_NONE] = [26, 10, 8, 1];
const AF_INET = 2;
/** Flags of an address, and the attribute that has them. Source: linux/if_addr.h */
const IFA_FLAGS = 8;
const ADDRESS_FLAGS: Readonly<Record<string, number>> = { nodad: 0x02, noprefixroute: 0x200 };
const PORT_KIND = 4;

function unknown(command: string): AppError {
  return new AppError("PODNET_FAILED", { message: `${JSON.stringify(command)} is no command` });
}

function linkMessage(
  { type, flags = 0, index = 0 }: { type: number; flags?: number; index?: number },
  { set = 0, mask = 0, parts = [] as readonly Uint8Array[] },
): Deed {
  const head = Buffer.alloc(HEAD.link);
  head.writeInt32LE(index, 4);
  head.writeUInt32LE(set, 8);
  head.writeUInt32LE(mask, 12);
  const message = messageOf({ type, flags: ACK | flags }, Buffer.concat([head, ...parts]));
  return { kind: "message", message };
}

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
const NO_LINK_LOCAL = nested(
  IFLA_AF_SPEC,
  nested(AF_INET6, attribute(ADDR_GEN_MODE, u8(GEN_NONE))),
);
const DEAF_PORT = nested(
  IFLA.info,
  attribute(PORT_KIND, "bridge"),
  nested(INFO.portData, attribute(LEARNING, u8(0))),
);

/** What a link is told: attributes, and flags with the mask of those that are set. */
interface Telling {
  readonly parts?: readonly Uint8Array[];
  readonly set?: number;
  readonly mask?: number;
}

/** Words of `link set`, each with what follows it. */
const SETTINGS: Readonly<Record<string, (value: string, indexOf: IndexOf) => Telling>> = {
  address: (mac) => ({ parts: [attribute(IFLA.address, macBytes(mac))] }),
  addrgenmode: () => ({ parts: [NO_LINK_LOCAL] }),
  arp: (value) => ({ set: value === "off" ? FLAGS.noArp : 0, mask: FLAGS.noArp }),
  master: (name, indexOf) => ({ parts: [attribute(IFLA.master, u32(indexOf(name)))] }),
  mtu: (value) => ({ parts: [attribute(IFLA.mtu, u32(Number(value)))] }),
};

function joined(tellings: readonly Telling[]): Required<Telling> {
  return {
    parts: tellings.flatMap(({ parts = [] }) => parts),
    set: tellings.reduce((bits, { set = 0 }) => bits | set, 0),
    mask: tellings.reduce((bits, { mask = 0 }) => bits | mask, 0),
  };
}

/** What the words behind `link set NAME` tell. */
function tellingOf(words: readonly string[], indexOf: IndexOf): Required<Telling> | undefined {
  const [first, second] = words;
  if (first === "up") return joined([{ set: FLAGS.up, mask: FLAGS.up }]);
  if (first === "down") return joined([{ mask: FLAGS.up }]);
  if (first === "type") return joined([{ parts: [second === "bridge" ? PLAIN : DEAF_PORT] }]);
  const tellings = words.flatMap((word, position) => {
    const setting = position % 2 === 0 ? SETTINGS[word] : undefined;
    return setting === undefined ? [] : [setting(words[position + 1] ?? "", indexOf)];
  });
  return tellings.length * 2 === words.length ? joined(tellings) : undefined;
}

function linkDeed(words: readonly string[], indexOf: IndexOf): Deed | undefined {
  const [verb, name = "", ...rest] = words;
  if (verb === "add") {
    const parts = [attribute(IFLA.name, name), PLAIN];
    return linkMessage({ type: RTM.newLink, flags: CREATE | EXCLUSIVE }, { parts });
  }
  const index = indexOf(name);
  if (verb === "del") return linkMessage({ type: RTM.deleteLink, index }, {});
  const telling = verb === "set" ? tellingOf(rest, indexOf) : undefined;
  return telling === undefined ? undefined : linkMessage({ type: RTM.newLink, index }, telling);
}

/** Bytes of an address, which is as long as its family says. */
function addressBytes({ version, value }: IpPrefix): Uint8Array {
  return Buffer.from(value.toString(16).padStart(IP_BITS[version] / 4, "0"), "hex");
}

function addressMessage(
  { type, flags }: { readonly type: number; readonly flags: number },
  address: { readonly ip: IpPrefix; readonly index: number; readonly bits: number },
): Uint8Array {
  const { ip, index, bits } = address;
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

const REMOVAL = { type: RTM.deleteAddress, flags: 0 };

/** An address that is to go, as the kernel told of it. */
export function removalOf(text: string, index: number): Uint8Array | undefined {
  const ip = parseIp(text);
  if (ip === undefined) return undefined;
  return addressMessage(REMOVAL, { ip, index, bits: 0 });
}

function addressDeed(words: readonly string[], indexOf: IndexOf): Deed | undefined {
  const [verb, text = "", , name = "", ...options] = words;
  // `addr flush dev NAME`
  if (verb === "flush") return { kind: "flush", name: words[2] ?? "" };
  const ip = parseIp(text);
  if (ip === undefined) return undefined;
  const index = indexOf(name);
  if (verb === "del")
    return { kind: "message", message: addressMessage(REMOVAL, { ip, index, bits: 0 }) };
  const bits = options.reduce((sum, option) => sum | (ADDRESS_FLAGS[option] ?? 0), 0);
  const flags = CREATE | EXCLUSIVE;
  const message = addressMessage({ type: RTM.newAddress, flags }, { ip, index, bits });
  return { kind: "message", message };
}

/** `tuntap add dev NAME mode tap [multi_queue] user ID group ID` */
function tapDeed(words: readonly string[]): Deed {
  const [, , name = ""] = words;
  const owner = Number(words[words.indexOf("user") + 1]);
  return { kind: "makeTap", name, owner, takesMany: words.includes("multi_queue") };
}

/** `fdb del|replace MAC dev NAME master [static]` */
function forwardingDeed(words: readonly string[], indexOf: IndexOf): Deed {
  const [verb, mac = "", , name = ""] = words;
  const head = Buffer.alloc(HEAD.neighbour);
  head[0] = AF_BRIDGE;
  head.writeInt32LE(indexOf(name), 4);
  head.writeUInt16LE(verb === "del" ? NUD.permanent : NUD.static | NUD_REACHABLE, 8);
  head[10] = NTF_MASTER;
  const body = Buffer.concat([head, attribute(NDA.mac, macBytes(mac))]);
  const type = verb === "del" ? RTM.deleteNeighbour : RTM.newNeighbour;
  const flags = ACK | (verb === "del" ? 0 : CREATE | REPLACE);
  return { kind: "message", message: messageOf({ type, flags }, body) };
}

/** @throws AppError with PODNET_FAILED for a command that no plan has, and what `indexOf` throws */
export function deedOf(command: string, indexOf: IndexOf): Deed {
  const [object, ...words] = command.split(" ");
  const deed =
    object === "link"
      ? linkDeed(words, indexOf)
      : object === "addr"
        ? addressDeed(words, indexOf)
        : object === "tuntap"
          ? tapDeed(words)
          : object === "fdb"
            ? forwardingDeed(words, indexOf)
            : undefined;
  if (deed === undefined) throw unknown(command);
  return deed;
}
