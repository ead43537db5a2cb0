// SPDX-License-Identifier: Apache-2.0
// NICs of the node, seen and changed by netlink.
import { normalizeMac } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type {
  Files,
  Netlink,
  NetnsHandle,
  NodeNic,
  NodeNicName,
  NodeNics,
} from "@patchbay/core/ports";
import { askEverything, askIndexes } from "../netlink/ask.ts";
import { CREATE, EXCLUSIVE } from "../netlink/change-messages.ts";
import { sayErrno } from "../netlink/errno.ts";
import { ACK, messageOf, type Message } from "../netlink/message.ts";
import { FLAGS, HEAD, IFLA, RTM } from "../netlink/rtnetlink.ts";
import { attribute, macBytes, u32 } from "../netlink/write.ts";
import { nameByDevice, nameByKernelPath } from "./names.ts";
import { findLent, seenNicsIn, type SeenNic } from "./seen.ts";
import { addressBody, addressesIn, routeBody, routesIn, sayAddress, sayRoute } from "./words.ts";

/** What looks at the host. */
export interface NodeNicsOptions {
  readonly netlink: Netlink;
  readonly files: Files;
  /** Where the host's files are, without a slash at its end; empty: they are ours. */
  readonly root: string;
}

/** A name that nobody has, which the kernel completes. */
const ANY_NAME = "dev%d";
/** What is so already. Source: errno(3), EEXIST */
const EXISTS = 17;

/** One thing that is said to the kernel. */
interface Saying {
  readonly message: Uint8Array;
  /** What it gives, for whoever reads that it was refused. */
  readonly what: string;
  /** What the kernel may answer beside success. */
  readonly isSo?: number;
}

function linkMessage(index: number, flags: { set: number; mask: number }, ...parts: Uint8Array[]) {
  const head = Buffer.alloc(HEAD.link);
  head.writeInt32LE(index, 4);
  head.writeUInt32LE(flags.set, 8);
  head.writeUInt32LE(flags.mask, 12);
  return messageOf({ type: RTM.newLink, flags: ACK }, Buffer.concat([head, ...parts]));
}

const AS_IS = { set: 0, mask: 0 };
const DOWN = { set: 0, mask: FLAGS.up };

/** What the link itself lacks. Name and MAC are given while it is down, since not every kind takes them else. */
function linkSayings(link: SeenNic, nic: NodeNic): readonly Saying[] {
  const { index } = link;
  const isRenamed = link.name !== nic.name;
  const hasOtherMac = normalizeMac(link.mac) !== normalizeMac(nic.mac);
  const isDown = isRenamed || hasOtherMac || !link.up;
  const up = { set: nic.up ? FLAGS.up : 0, mask: FLAGS.up };
  const told: readonly (readonly [boolean, string, Uint8Array])[] = [
    [isRenamed, `name ${nic.name}`, linkMessage(index, DOWN, attribute(IFLA.name, nic.name))],
    [
      hasOtherMac,
      `MAC ${nic.mac}`,
      linkMessage(index, DOWN, attribute(IFLA.address, macBytes(nic.mac))),
    ],
    [
      link.mtu !== nic.mtu,
      `MTU ${String(nic.mtu)}`,
      linkMessage(index, AS_IS, attribute(IFLA.mtu, u32(nic.mtu))),
    ],
    [
      link.alias !== nic.alias,
      `alias ${JSON.stringify(nic.alias)}`,
      linkMessage(index, AS_IS, attribute(IFLA.alias, Buffer.from(nic.alias))),
    ],
    [isDown === nic.up, nic.up ? "up" : "down", linkMessage(index, up)],
  ];
  return told.filter(([isMissing]) => isMissing).map(([, what, message]) => ({ what, message }));
}

/** Its addresses and routes: of those that it has the kernel says so. */
function givenSayings({ index: now }: SeenNic, nic: NodeNic): readonly Saying[] {
  const flags = ACK | CREATE | EXCLUSIVE;
  return [
    ...nic.addresses.map((words) => ({
      what: `address ${sayAddress(words)}`,
      isSo: EXISTS,
      message: messageOf({ type: RTM.newAddress, flags }, addressBody(words, now)),
    })),
    ...nic.routes.map((words) => ({
      what: `route ${sayRoute(words)}`,
      isSo: EXISTS,
      message: messageOf({ type: RTM.newRoute, flags }, routeBody(words, nic.index, now)),
    })),
  ];
}

function nicOf(link: SeenNic, messages: readonly Message[]): NodeNic {
  const { name, index, kind, mac, mtu, up, alias, permanentMac } = link;
  return {
    name,
    index,
    kind,
    mac,
    mtu,
    up,
    alias,
    ...(permanentMac === "" ? {} : { permanentMac }),
    addresses: addressesIn(messages, index),
    routes: routesIn(messages, index),
  };
}

class KernelNodeNics implements NodeNics {
  readonly #options: NodeNicsOptions;

  constructor(options: NodeNicsOptions) {
    this.#options = options;
  }

  async find(host: NetnsHandle, by: NodeNicName): Promise<NodeNic | undefined> {
    const messages = await askEverything(this.#options.netlink, host);
    const links = seenNicsIn(messages);
    const name = await this.#nameOf(by, links);
    const link = links.find((one) => one.name === name);
    return link && nicOf(link, messages);
  }

  async bringBack(pod: NetnsHandle, name: string, host: NetnsHandle): Promise<void> {
    const index = (await askIndexes(this.#options.netlink, pod)).get(name);
    if (index === undefined) return;
    const parts = [attribute(IFLA.name, ANY_NAME), attribute(IFLA.netnsFd, u32(host.fd))];
    const errno = await this.#say(pod, linkMessage(index, AS_IS, ...parts));
    if (errno === 0) return;
    const message = `the kernel refused to move ${name} to the host: ${sayErrno(errno)}`;
    throw new AppError("PODNET_FAILED", { message });
  }

  async restore(host: NetnsHandle, nic: NodeNic): ReturnType<NodeNics["restore"]> {
    const links = seenNicsIn(await askEverything(this.#options.netlink, host));
    const link = findLent(links, nic);
    if (link === undefined) return { kind: "absent" };
    const lacks: string[] = [];
    for (const { what, message, isSo } of [...linkSayings(link, nic), ...givenSayings(link, nic)]) {
      const errno = await this.#say(host, message);
      if (errno !== 0 && errno !== isSo) lacks.push(`${what}: ${sayErrno(errno)}`);
    }
    return { kind: "there", lacks };
  }

  async #say(netns: NetnsHandle, message: Uint8Array): Promise<number> {
    const [answer] = await this.#options.netlink.talk(netns, "route", [message]);
    return answer?.errno ?? 0;
  }

  async #nameOf(by: NodeNicName, links: readonly SeenNic[]): Promise<string | undefined> {
    switch (by.by) {
      case "name":
        return by.name;
      case "mac":
        return links.find(({ mac }) => normalizeMac(mac) === normalizeMac(by.mac))?.name;
      case "kernelPath":
        return nameByKernelPath(by.path, this.#options);
      case "device":
        return nameByDevice(by.id, this.#options);
    }
  }
}

/** NICs of the node, by netlink and sysfs. */
export function createNodeNics(options: NodeNicsOptions): NodeNics {
  return new KernelNodeNics(options);
}
