// SPDX-License-Identifier: Apache-2.0
// Default routes of a network namespace. Source: rtnetlink(7); linux/rtnetlink.h
import { parseIp } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import type {
  DefaultRoute,
  DefaultRoutes,
  Netlink,
  NetnsHandle,
  NewDefaultRoute,
} from "@patchbay/core/interfaces";
import { queryLinkIndices, queryRoutes } from "./queries.ts";
import {
  REQUEST_ACK,
  encodeAttribute,
  decodeAttributes,
  findNumber,
  type Message,
  encodeMessage,
  describeErrno,
  u32,
} from "./message.ts";
import {
  toAddressBytes,
  printAddressBytes,
  AF_INET,
  AF_INET6,
  CLONED_ROUTE_FLAG,
  CREATE,
  EXCLUSIVE,
  MESSAGE_HEADER_BYTES,
  MAIN_TABLE,
  RTA,
  RTM,
  readIpVersion,
  toView,
} from "./rtnetlink.ts";

/** Offsets of fields in struct rtmsg, in bytes. */
const ROUTE_OFFSETS = {
  family: 0,
  destinationLength: 1,
  table: 4,
  protocol: 5,
  scope: 6,
  type: 7,
  flags: 8,
};
/** RTPROT_BOOT (the protocol of manually added routes) and RTN_UNICAST (the type of routes through a NIC). */
const [BOOT, UNICAST] = [3, 1];
/** Value of RTNH_F_ONLINK, the only flag that a request may set. The kernel rejects flags that report state. */
export const SETTABLE_ROUTE_FLAGS = 0x4;
/** EEXIST (the route exists) and ESRCH (the route is missing). Source: errno(3) */
const [EXISTS, MISSING] = [17, 3];

function isDefault(message: Message): boolean {
  if (message.type !== RTM.newRoute || message.body.length < MESSAGE_HEADER_BYTES.route)
    return false;
  const view = toView(message);
  const table =
    findNumber(decodeAttributes(message.body, MESSAGE_HEADER_BYTES.route), RTA.table) ??
    view.getUint8(ROUTE_OFFSETS.table);
  return (
    view.getUint8(ROUTE_OFFSETS.destinationLength) === 0 &&
    table === MAIN_TABLE &&
    view.getUint8(ROUTE_OFFSETS.type) === UNICAST &&
    (view.getUint32(ROUTE_OFFSETS.flags, true) & CLONED_ROUTE_FLAG) === 0
  );
}

/** Copies the body of a route message without flags that a request may not set. */
export function copySettableRoute({ body }: Message): Buffer {
  const request = Buffer.from(body);
  const flags = request.readUInt32LE(ROUTE_OFFSETS.flags) & SETTABLE_ROUTE_FLAGS;
  request.writeUInt32LE(flags, ROUTE_OFFSETS.flags);
  return request;
}

function decodeRoute(message: Message, names: ReadonlyMap<number, string>): DefaultRoute {
  const version = readIpVersion(toView(message));
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.route);
  const gateway = attributes.get(RTA.gateway);
  return {
    version,
    link: names.get(findNumber(attributes, RTA.link) ?? 0) ?? "",
    ...(gateway === undefined ? {} : { gateway: printAddressBytes(version, gateway) }),
    words: copySettableRoute(message).toString("base64"),
  };
}

/** Encodes the body of the route `default via GATEWAY dev LINK`. */
function encodeRouteBody({ gateway }: NewDefaultRoute, index: number): Uint8Array {
  const ip = parseIp(gateway);
  if (ip === undefined) {
    const reason = `${JSON.stringify(gateway)} is not an IP address`;
    throw new AppError("PODNET_ARGUMENT_INVALID", { reason });
  }
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.route);
  header[ROUTE_OFFSETS.family] = ip.version === 4 ? AF_INET : AF_INET6;
  header[ROUTE_OFFSETS.table] = MAIN_TABLE;
  header[ROUTE_OFFSETS.protocol] = BOOT;
  header[ROUTE_OFFSETS.type] = UNICAST;
  return Buffer.concat([
    header,
    encodeAttribute(RTA.gateway, toAddressBytes(ip)),
    encodeAttribute(RTA.link, u32(index)),
  ]);
}

interface RouteChange {
  readonly type: number;
  readonly body: Uint8Array;
  readonly expectedErrno: number;
  readonly description: string;
}

async function applyChange(
  netlink: Netlink,
  netns: NetnsHandle,
  change: RouteChange,
): Promise<void> {
  const { type, body, expectedErrno, description } = change;
  const flags = type === RTM.newRoute ? REQUEST_ACK | CREATE | EXCLUSIVE : REQUEST_ACK;
  const [answer] = await netlink.exchangeMessages(netns, "route", [
    encodeMessage({ type, flags }, body),
  ]);
  const errno = answer?.errno ?? 0;
  if (errno === 0 || errno === expectedErrno) return;
  const message = `the kernel refused "${description}": ${describeErrno(errno)}`;
  throw new AppError("PODNET_FAILED", { message });
}

function printRoute({ gateway, link }: Pick<DefaultRoute, "gateway" | "link">): string {
  return `default${gateway === undefined ? "" : ` via ${gateway}`} dev ${link}`;
}

export function createDefaultRoutes(netlink: Netlink): DefaultRoutes {
  const add = (
    netns: NetnsHandle,
    route: Pick<DefaultRoute, "gateway" | "link">,
    body: Uint8Array,
  ): Promise<void> =>
    applyChange(netlink, netns, {
      type: RTM.newRoute,
      body,
      expectedErrno: EXISTS,
      description: `route add ${printRoute(route)}`,
    });
  return {
    list: async (netns) => {
      const messages = (await queryRoutes(netlink, netns)).filter(isDefault);
      if (messages.length === 0) return [];
      const indexes = await queryLinkIndices(netlink, netns);
      const names = new Map([...indexes].map(([name, index]) => [index, name]));
      return messages.map((message) => decodeRoute(message, names));
    },
    add: async (netns, route) => {
      const index = (await queryLinkIndices(netlink, netns)).get(route.link);
      if (index === undefined) throw new AppError("PODNET_LINK_MISSING", { link: route.link });
      await add(netns, route, encodeRouteBody(route, index));
    },
    remove: async (netns, route) => {
      const body = Buffer.from(route.words, "base64");
      const description = `route delete ${printRoute(route)}`;
      await applyChange(netlink, netns, {
        type: RTM.deleteRoute,
        body,
        expectedErrno: MISSING,
        description,
      });
    },
    restore: async (netns, route) => {
      await add(netns, route, Buffer.from(route.words, "base64"));
    },
  };
}
