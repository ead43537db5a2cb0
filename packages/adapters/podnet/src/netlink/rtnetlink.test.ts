// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { encodeAttribute, encodeMessage, decodeMessages, u32 } from "./message.ts";
import {
  ADDRESS_FLAG_BITS,
  AF_INET,
  AF_INET6,
  decodeDestinations,
  decodeNicAddresses,
  decodePermanentNeighbors,
  encodePermanentNeighbor,
  MESSAGE_HEADER_BYTES,
  IFA,
  IFA_FLAGS,
  MAIN_TABLE,
  NDA,
  NUD,
  RTA,
  RTM,
} from "./rtnetlink.ts";

const NIC = 2;
const V4 = Buffer.from([10, 0, 0, 2]);
const V6 = Buffer.from("fd000000000000000000000000000002", "hex");

interface AddressOptions {
  readonly bytes?: Uint8Array;
  readonly index?: number;
  readonly scope?: number;
  readonly flags?: number;
}

function address({
  bytes = V4,
  index = NIC,
  scope = 0,
  flags = ADDRESS_FLAG_BITS.permanent,
}: AddressOptions) {
  const head = Buffer.alloc(MESSAGE_HEADER_BYTES.address);
  head.set([bytes.length === 4 ? AF_INET : AF_INET6, bytes.length * 6, 0, scope]);
  head.writeUInt32LE(index, 4);
  const parts = [encodeAttribute(IFA.address, bytes), encodeAttribute(IFA_FLAGS, u32(flags))];
  return encodeMessage({ type: RTM.newAddress, flags: 0 }, Buffer.concat([head, ...parts]));
}

interface RouteOptions {
  readonly to?: Uint8Array;
  readonly length?: number;
  readonly gateway?: Uint8Array;
  readonly index?: number;
  readonly table?: number;
  readonly protocol?: number;
  readonly flags?: number;
  readonly family?: number;
  readonly type?: number;
}

function route(options: RouteOptions) {
  const { to, length = 0, gateway, index = NIC, family = AF_INET } = options;
  const { table = MAIN_TABLE, protocol = 3, flags = 0, type = 1 } = options;
  const head = Buffer.alloc(MESSAGE_HEADER_BYTES.route);
  head.set([family, length, 0, 0, table, protocol, 0, type]);
  head.writeUInt32LE(flags, 8);
  const parts = [
    ...(to === undefined ? [] : [encodeAttribute(RTA.destination, to)]),
    ...(gateway === undefined ? [] : [encodeAttribute(RTA.gateway, gateway)]),
    encodeAttribute(RTA.link, u32(index)),
  ];
  return encodeMessage({ type: RTM.newRoute, flags: 0 }, Buffer.concat([head, ...parts]));
}

interface NeighborOptions {
  readonly index?: number;
  readonly state?: number;
  readonly address?: Uint8Array;
  readonly mac?: Uint8Array;
}

function neighbor(options: NeighborOptions) {
  const { index = NIC, state = NUD.permanent, address: bytes = V4 } = options;
  const { mac = Buffer.from("02000000aa01", "hex") } = options;
  const head = Buffer.alloc(MESSAGE_HEADER_BYTES.neighbour);
  head.set([bytes.length === 4 ? AF_INET : AF_INET6]);
  head.writeInt32LE(index, 4);
  head.writeUInt16LE(state, 8);
  const parts = [encodeAttribute(NDA.destination, bytes), encodeAttribute(NDA.mac, mac)];
  return encodeMessage({ type: RTM.newNeighbour, flags: 0 }, Buffer.concat([head, ...parts]));
}

test.each<{ name: string; options: NeighborOptions; want: readonly object[] }>([
  {
    name: "that is permanent is included",
    options: {},
    want: [{ address: "10.0.0.2", mac: "02:00:00:00:aa:01" }],
  },
  { name: "that answered ARP is not", options: { state: NUD.stale }, want: [] },
  { name: "of another NIC is not", options: { index: 3 }, want: [] },
  {
    name: "of IPv6 is included too",
    options: { address: V6 },
    want: [{ address: "fd00::2", mac: "02:00:00:00:aa:01" }],
  },
  { name: "without a MAC is not", options: { mac: Buffer.alloc(0) }, want: [] },
])("a neighbor $name", ({ options, want }) => {
  expect(decodePermanentNeighbors(decodeMessages(neighbor(options)), NIC)).toEqual(want);
});

test.each(["10.0.0.2", "fd00::2"])("encodes the permanent neighbor %s", (address) => {
  const known = { address, mac: "02:00:00:00:aa:01" };
  const flags = { type: RTM.newNeighbour, flags: 0 };
  const message = encodeMessage(flags, encodePermanentNeighbor(NIC, known));
  expect(decodePermanentNeighbors(decodeMessages(message), NIC)).toEqual([known]);
  for (const invalid of [
    { ...known, address: "gateway" },
    { ...known, mac: "unknown" },
  ])
    expect(() => encodePermanentNeighbor(NIC, invalid)).toThrow("is not a neighbor");
});

function answering(...messages: readonly Uint8Array[]) {
  return decodeNicAddresses(decodeMessages(Buffer.concat(messages)), NIC);
}

describe("an address", () => {
  test.each<{ name: string; options: AddressOptions; want: readonly string[] }>([
    { name: "that is permanent is included", options: {}, want: ["10.0.0.2/24"] },
    { name: "of IPv6 is included too", options: { bytes: V6 }, want: ["fd00::2/96"] },
    { name: "of another NIC is not", options: { index: 3 }, want: [] },
    { name: "with link scope is not", options: { bytes: V6, scope: 253 }, want: [] },
    { name: "with a lifetime is not", options: { flags: 0 }, want: [] },
    {
      name: "that the kernel generates is not",
      options: { bytes: V6, flags: ADDRESS_FLAG_BITS.permanent | ADDRESS_FLAG_BITS.temporary },
      want: [],
    },
    {
      name: "that is secondary is included",
      options: { flags: ADDRESS_FLAG_BITS.permanent | 0x01 },
      want: ["10.0.0.2/24"],
    },
  ])("$name", ({ options: sketch, want }) => {
    expect(answering(address(sketch))).toEqual({ addresses: want, routes: [] });
  });
});

describe("a route", () => {
  const gateway = Buffer.from([10, 0, 0, 1]);

  test.each<{ name: string; options: RouteOptions; want: readonly object[] }>([
    {
      name: "to all addresses is included",
      options: { gateway },
      want: [{ destination: "0.0.0.0/0", gateway: "10.0.0.1" }],
    },
    {
      name: "to all IPv6 addresses is included too",
      options: { family: AF_INET6, gateway: V6 },
      want: [{ destination: "::/0", gateway: "fd00::2" }],
    },
    {
      name: "to an on-link network is included",
      options: { to: V4, length: 32 },
      want: [{ destination: "10.0.0.2/32" }],
    },
    { name: "through another NIC is not", options: { gateway, index: 3 }, want: [] },
    { name: "in another table is not", options: { gateway, table: 255 }, want: [] },
    { name: "that the kernel derived from an address is not", options: { protocol: 2 }, want: [] },
    { name: "that a router advertised is not", options: { protocol: 9 }, want: [] },
    { name: "that is a kernel clone is not", options: { gateway, flags: 0x200 }, want: [] },
  ])("$name", ({ options: sketch, want }) => {
    expect(answering(route(sketch))).toEqual({ addresses: [], routes: want });
  });
});

test.each<{ name: string; options: RouteOptions; want: readonly string[] }>([
  { name: "of any table", options: { to: V4, length: 32, table: 255 }, want: ["10.0.0.2/32"] },
  {
    name: "of IPv6",
    options: { to: V6, length: 64, family: AF_INET6 },
    want: ["fd00::2/64"],
  },
  { name: "that drops packets", options: { to: V4, length: 24, type: 6 }, want: ["10.0.0.2/24"] },
  { name: "by default", options: { gateway: V4 }, want: [] },
  { name: "of broadcasts", options: { to: V4, length: 32, type: 3 }, want: [] },
  { name: "that the kernel cached", options: { to: V4, length: 32, flags: 0x200 }, want: [] },
])("decodes the destination of a route $name", ({ options, want }) => {
  const found = decodeDestinations(decodeMessages(route(options)));
  expect(found).toEqual(want.map((destination) => ({ destination, index: NIC })));
});
