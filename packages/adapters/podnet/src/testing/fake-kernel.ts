// SPDX-License-Identifier: Apache-2.0
// Fake kernel for tests: a namespace that answers netlink.
import type { Netlink, NetlinkAnswer } from "@patchbay/core/interfaces";
import { createFakeNetlink, type FakeNetlink } from "@patchbay/podnet/testing";
import {
  encodeAttribute,
  decodeAttributes,
  parseMac,
  encodeMessage,
  findText,
  u16,
  u32,
} from "../netlink/message.ts";
import {
  LINK_FLAGS,
  GROUP_FORWARD_MASK_ATTRIBUTE,
  MESSAGE_HEADER_BYTES,
  IFA,
  IFLA,
  LINK_INFO,
  LEARNING_ATTRIBUTE,
  MULTI_QUEUE_ATTRIBUTE,
  NDA,
  NUD,
  BRIDGE_DELAY_ATTRIBUTES,
  RTM,
} from "../netlink/rtnetlink.ts";

export interface LinkOptions {
  readonly name: string;
  readonly index: number;
  readonly kind?: string;
  readonly mac?: string;
  readonly mtu?: number;
  readonly flags?: readonly (keyof typeof LINK_FLAGS)[];
  /** Index of the link's bridge. */
  readonly master?: number;
  readonly isLearning?: boolean;
  /** Mask of the groups that a bridge port forwards, by default none. */
  readonly groupMask?: number;
  readonly isMultiQueue?: boolean;
  /** Attributes of a bridge, by default zero. */
  readonly bridge?: Partial<Record<keyof typeof BRIDGE_DELAY_ATTRIBUTES, number>>;
  /** Addresses: `ADDRESS/LENGTH` for IPv4, `HEX/LENGTH` for IPv6. */
  readonly addresses?: readonly string[];
}

export interface EntryOptions {
  readonly mac: string;
  readonly index: number;
  /** Index of the bridge; unset for an entry of the device itself. */
  readonly master?: number;
  readonly state?: keyof typeof NUD;
}

export interface KernelOptions {
  readonly links?: readonly LinkOptions[];
  readonly forwarding?: readonly EntryOptions[];
  /** Generation of the rules; unset if there are no tables. */
  readonly rules?: number;
  /** Whether dumps are interrupted. */
  readonly isInterrupted?: true;
  readonly settings?: readonly string[];
}

function buildInfo({
  kind,
  bridge,
  isMultiQueue,
  isLearning,
  groupMask = 0,
}: LinkOptions): readonly Uint8Array[] {
  const asBridge = Object.entries(BRIDGE_DELAY_ATTRIBUTES).map(([name, type]) =>
    encodeAttribute(type, u32(bridge?.[name as keyof typeof BRIDGE_DELAY_ATTRIBUTES] ?? 0)),
  );
  const asTap = [
    encodeAttribute(MULTI_QUEUE_ATTRIBUTE, Buffer.from([isMultiQueue === true ? 1 : 0])),
  ];
  const data = kind === "bridge" ? asBridge : kind === "tun" ? asTap : [];
  const port = [
    encodeAttribute(LEARNING_ATTRIBUTE, Buffer.from([isLearning === false ? 0 : 1])),
    encodeAttribute(GROUP_FORWARD_MASK_ATTRIBUTE, u16(groupMask)),
  ];
  return [
    ...(kind === undefined ? [] : [encodeAttribute(LINK_INFO.kind, kind)]),
    ...(data.length === 0 ? [] : [encodeAttribute(LINK_INFO.data, Buffer.concat(data))]),
    ...(isLearning === undefined ? [] : [encodeAttribute(LINK_INFO.portData, Buffer.concat(port))]),
  ];
}

function linkMessage(link: LinkOptions): Uint8Array {
  const head = Buffer.alloc(MESSAGE_HEADER_BYTES.link);
  head.writeInt32LE(link.index, 4);
  head.writeUInt32LE(
    (link.flags ?? []).reduce((bits, name) => bits | LINK_FLAGS[name], 0),
    8,
  );
  const { name, mac = "02:00:00:00:00:01", mtu = 1500, master } = link;
  const parts = [
    encodeAttribute(IFLA.name, name),
    encodeAttribute(IFLA.address, parseMac(mac)),
    encodeAttribute(IFLA.mtu, u32(mtu)),
    ...(master === undefined ? [] : [encodeAttribute(IFLA.master, u32(master))]),
    encodeAttribute(IFLA.info, Buffer.concat(buildInfo(link))),
  ];
  return encodeMessage({ type: RTM.newLink, flags: 0 }, Buffer.concat([head, ...parts]));
}

function addressMessages({ index, addresses = [] }: LinkOptions): readonly Uint8Array[] {
  return addresses.map((text) => {
    const [address = "", length] = text.split("/");
    const isIpv4 = address.includes(".");
    const head = Buffer.alloc(MESSAGE_HEADER_BYTES.address);
    head.set([isIpv4 ? 2 : 10, Number(length)]);
    head.writeUInt32LE(index, 4);
    const bytes = isIpv4
      ? Buffer.from(address.split(".").map(Number))
      : Buffer.from(address, "hex");
    const body = Buffer.concat([head, encodeAttribute(isIpv4 ? IFA.local : IFA.address, bytes)]);
    return encodeMessage({ type: RTM.newAddress, flags: 0 }, body);
  });
}

function entryMessage({ mac, index, master, state }: EntryOptions): Uint8Array {
  const head = Buffer.alloc(MESSAGE_HEADER_BYTES.neighbour);
  head.writeInt32LE(index, 4);
  head.writeUInt16LE(state === undefined ? 0x02 : NUD[state], 8);
  const parts = [
    encodeAttribute(NDA.mac, parseMac(mac)),
    ...(master === undefined ? [] : [encodeAttribute(NDA.master, u32(master))]),
  ];
  return encodeMessage({ type: RTM.newNeighbour, flags: 0 }, Buffer.concat([head, ...parts]));
}

/** Source: linux/netfilter/nf_tables.h */
const [GET_TABLE, NEW_TABLE, NEW_GENERATION] = [0x0a01, 0x0a00, 0x0a0f];

function rulesAnswer({ rules }: KernelOptions, type: number): Uint8Array {
  if (type === GET_TABLE) {
    return rules === undefined
      ? new Uint8Array()
      : encodeMessage({ type: NEW_TABLE, flags: 0 }, Buffer.alloc(4));
  }
  const id = Buffer.alloc(4);
  id.writeUInt32BE(rules ?? 1);
  const body = Buffer.concat([Buffer.alloc(4), encodeAttribute(1, id)]);
  return encodeMessage({ type: NEW_GENERATION, flags: 0 }, body);
}

function routeAnswer(options: KernelOptions, type: number): Uint8Array {
  const { links = [], forwarding = [] } = options;
  if (type === RTM.getLink) return Buffer.concat(links.map(linkMessage));
  if (type === RTM.getAddress) return Buffer.concat(links.flatMap(addressMessages));
  return Buffer.concat(forwarding.map(entryMessage));
}

function interrupted(data: Uint8Array): Uint8Array {
  const copy = Buffer.from(data);
  if (copy.length > 0) copy.writeUInt16LE(0x10, 6);
  return copy;
}

/** Flag of requests that create a link. Source: NLM_F_CREATE */
const CREATE_FLAG = 0x400;
const MESSAGE_HEAD = 16;
const NAMES = Object.entries(RTM);

/** A fake kernel that creates and deletes links on request, and records the requests. */
export class MutableKernel {
  /** Requests with the index of their link, for example `newLink 3`. */
  readonly requests: string[] = [];
  readonly netlink: Netlink;
  /** Whether requests to delete a link have no effect. */
  ignoresDeletes = false;
  #links: readonly LinkOptions[];

  /** `refused` contains error numbers by request, as in `requests`. */
  constructor(options: KernelOptions, refused: Readonly<Record<string, number>> = {}) {
    this.#links = options.links ?? [];
    const kernel = createKernel(() => ({ ...options, links: this.#links }));
    this.netlink = {
      ...kernel,
      makeTap: async (netns, tap) => {
        await kernel.makeTap(netns, tap);
        this.requests.push(`makeTap ${tap.name}`);
        this.#add({ name: tap.name, kind: "tun" });
      },
      exchangeMessages: async (netns, protocol, messages) => {
        const changes = messages.filter((message) => this.#isChange(protocol, message));
        if (changes.length === 0) return kernel.exchangeMessages(netns, protocol, messages);
        const answers: NetlinkAnswer[] = [];
        for (const message of changes) {
          const errno = refused[this.#take(message)] ?? 0;
          answers.push({ data: new Uint8Array(), errno });
          if (errno !== 0) break;
        }
        return answers;
      },
    };
  }

  #remove(index: number): void {
    this.#links = this.#links.filter((link) => link.index !== index);
  }

  #add(link: Omit<LinkOptions, "index">): void {
    const index = Math.max(0, ...this.#links.map((each) => each.index)) + 1;
    this.#links = [...this.#links, { ...link, index }];
  }

  #isChange(protocol: string, message: Uint8Array): boolean {
    const name = NAMES.find(([, type]) => type === message[4])?.[0] ?? "get";
    return protocol === "route" && !name.startsWith("get");
  }

  #take(message: Uint8Array): string {
    const view = new DataView(message.buffer, message.byteOffset, message.length);
    const name = NAMES.find(([, type]) => type === view.getUint16(4, true))?.[0] ?? "";
    const index = view.getInt32(MESSAGE_HEAD + 4, true);
    const request = `${name} ${String(index)}`;
    this.requests.push(request);
    const isMade = name === "newLink" && (view.getUint16(6, true) & CREATE_FLAG) !== 0;
    const attributes = decodeAttributes(message, MESSAGE_HEAD + MESSAGE_HEADER_BYTES.link);
    if (isMade) this.#add({ name: findText(attributes, IFLA.name), kind: "bridge" });
    if (name === "deleteLink" && !this.ignoresDeletes) this.#remove(index);
    return request;
  }
}

/** Creates a fake kernel whose state is read at each request. */
export function createKernel(observe: () => KernelOptions): FakeNetlink {
  return createFakeNetlink((protocol, message) => {
    const options = observe();
    const type = Buffer.from(message).readUInt16LE(4);
    if (protocol === "netfilter") return { data: rulesAnswer(options, type) };
    const data = routeAnswer(options, type);
    return { data: options.isInterrupted === true ? interrupted(data) : data };
  });
}
