// SPDX-License-Identifier: Apache-2.0
// Default routes of a pod's namespace, by rtnetlink. Source: rtnetlink(7); linux/rtnetlink.h.
import { parseIp } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type {
  DefaultRoute,
  DefaultRoutes,
  Netlink,
  NetnsHandle,
  NewDefaultRoute,
} from "@patchbay/core/ports";
import { askIndexes, askRoutes } from "./ask.ts";
import { addressBytes, CREATE, EXCLUSIVE } from "./change-messages.ts";
import { sayErrno } from "./errno.ts";
import { ACK, attributesIn, findNumber, messageOf, type Message } from "./message.ts";
import { CLONED, MAIN_TABLE, RTA } from "./nic.ts";
import { addressText, AF_INET, AF_INET6, HEAD, RTM, versionIn, viewOf } from "./rtnetlink.ts";
import { attribute, u32 } from "./write.ts";

/** Where fields of struct rtmsg are. */
const AT = { family: 0, length: 1, table: 4, protocol: 5, scope: 6, type: 7, flags: 8 };
/** RTPROT_BOOT: as a person sets it. RTN_UNICAST: by a NIC, not a refusal. */
const [BOOT, UNICAST] = [3, 1];
/** RTNH_F_ONLINK: the one flag of a route that can be asked for; the others tell of the moment, and the kernel takes them from nobody. */
const ASKABLE = 0x4;
/** What is so already. Source: errno(3), EEXIST, ESRCH */
const [EXISTS, NOT_THERE] = [17, 3];

function isDefault(message: Message): boolean {
  if (message.type !== RTM.newRoute || message.body.length < HEAD.route) return false;
  const view = viewOf(message);
  const table =
    findNumber(attributesIn(message.body, HEAD.route), RTA.table) ?? view.getUint8(AT.table);
  return (
    view.getUint8(AT.length) === 0 &&
    table === MAIN_TABLE &&
    view.getUint8(AT.type) === UNICAST &&
    (view.getUint32(AT.flags, true) & CLONED) === 0
  );
}

/** The route as it can be said to the kernel again. */
function wordsOf({ body }: Message): string {
  const words = Buffer.from(body);
  words.writeUInt32LE(words.readUInt32LE(AT.flags) & ASKABLE, AT.flags);
  return words.toString("base64");
}

function routeIn(message: Message, names: ReadonlyMap<number, string>): DefaultRoute {
  const version = versionIn(viewOf(message));
  const attributes = attributesIn(message.body, HEAD.route);
  const gateway = attributes.get(RTA.gateway);
  return {
    version,
    link: names.get(findNumber(attributes, RTA.link) ?? 0) ?? "",
    ...(gateway === undefined ? {} : { gateway: addressText(version, gateway) }),
    words: wordsOf(message),
  };
}

/** Equivalent to: `default via GATEWAY dev LINK` */
function bodyOf({ gateway }: NewDefaultRoute, index: number): Uint8Array {
  const ip = parseIp(gateway);
  if (ip === undefined) {
    const reason = `${JSON.stringify(gateway)} is not an IP address`;
    throw new AppError("PODNET_ARGUMENT_INVALID", { reason });
  }
  const head = Buffer.alloc(HEAD.route);
  head[AT.family] = ip.version === 4 ? AF_INET : AF_INET6;
  head[AT.table] = MAIN_TABLE;
  head[AT.protocol] = BOOT;
  head[AT.type] = UNICAST;
  return Buffer.concat([
    head,
    attribute(RTA.gateway, addressBytes(ip)),
    attribute(RTA.link, u32(index)),
  ]);
}

interface Change {
  readonly type: number;
  readonly body: Uint8Array;
  /** What the kernel may answer beside success. */
  readonly isSo: number;
  /** In words, for whoever reads an error. */
  readonly said: string;
}

async function say(netlink: Netlink, netns: NetnsHandle, change: Change): Promise<void> {
  const { type, body, isSo, said } = change;
  const flags = type === RTM.newRoute ? ACK | CREATE | EXCLUSIVE : ACK;
  const [answer] = await netlink.talk(netns, "route", [messageOf({ type, flags }, body)]);
  const errno = answer?.errno ?? 0;
  if (errno === 0 || errno === isSo) return;
  const message = `the kernel refused "${said}": ${sayErrno(errno)}`;
  throw new AppError("PODNET_FAILED", { message });
}

function sayRoute({ gateway, link }: Pick<DefaultRoute, "gateway" | "link">): string {
  return `default${gateway === undefined ? "" : ` via ${gateway}`} dev ${link}`;
}

/** Default routes, read and changed by netlink. */
export function createDefaultRoutes(netlink: Netlink): DefaultRoutes {
  return {
    list: async (netns) => {
      const messages = (await askRoutes(netlink, netns)).filter(isDefault);
      if (messages.length === 0) return [];
      const indexes = await askIndexes(netlink, netns);
      const names = new Map([...indexes].map(([name, index]) => [index, name]));
      return messages.map((message) => routeIn(message, names));
    },
    add: async (netns, route) => {
      const index = (await askIndexes(netlink, netns)).get(route.link);
      if (index === undefined) throw new AppError("PODNET_LINK_MISSING", { link: route.link });
      const said = `route add ${sayRoute(route)}`;
      const body = bodyOf(route, index);
      await say(netlink, netns, { type: RTM.newRoute, body, isSo: EXISTS, said });
    },
    remove: async (netns, route) => {
      const body = Buffer.from(route.words, "base64");
      const said = `route delete ${sayRoute(route)}`;
      await say(netlink, netns, { type: RTM.deleteRoute, body, isSo: NOT_THERE, said });
    },
    restore: async (netns, route) => {
      const body = Buffer.from(route.words, "base64");
      const said = `route add ${sayRoute(route)}`;
      await say(netlink, netns, { type: RTM.newRoute, body, isSo: EXISTS, said });
    },
  };
}
