// SPDX-License-Identifier: Apache-2.0
import { normalizeMac } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import type {
  Files,
  Link,
  Namespaces,
  Netlink,
  NetnsHandle,
  NodeNic,
  NodeNicName,
  NodeNics,
  OpenNetns,
  PodNetwork,
} from "@patchbay/core/interfaces";
import type { WiredLink } from "../links.ts";
import { queryLinksAndRoutes, queryLinkIndices } from "../netlink/queries.ts";
import {
  REQUEST_ACK,
  encodeAttribute,
  type Attributes,
  decodeAttributes,
  parseMac,
  type Message,
  encodeMessage,
  describeErrno,
  findText,
  u32,
} from "../netlink/message.ts";
import {
  CREATE,
  EXCLUSIVE,
  LINK_FLAGS,
  MESSAGE_HEADER_BYTES,
  IFLA,
  decodeDestinations,
  decodeLinks,
  printMac,
  RTM,
  toView,
} from "../netlink/rtnetlink.ts";
import {
  restoreAddressBody,
  saveAddresses,
  restoreRouteBody,
  saveRoutes,
  printAddress,
  printRoute,
} from "./saved-addresses.ts";

type ListNics = (device: string) => Promise<readonly string[]>;

/** Pattern of device IDs. A device ID must be a single path component. */
const DEVICE_ID = /^[A-Za-z0-9][A-Za-z0-9_.:-]*$/;
/** Pattern of virtio devices. A virtio NIC belongs to a child device of the PCI device. */
const VIRTIO_DEVICE = /^virtio\d+$/;
const DEVICES_DIRECTORY = "/sys/devices/";

function createNicLister(files: Files): ListNics {
  return (device) => files.list(`${device}/net`);
}

async function listPciNics(files: Files, device: string): Promise<readonly string[]> {
  const nics = await createNicLister(files)(device);
  if (nics.length > 0) return nics;
  const virtioDevices = (await files.list(device)).filter((name) => VIRTIO_DEVICE.test(name));
  const virtioNics: string[] = [];
  for (const name of virtioDevices)
    virtioNics.push(...(await createNicLister(files)(`${device}/${name}`)));
  return virtioNics;
}

/** Finds the NIC of a device in sysfs below `root`. Source: CNI plugin host-device, getLink */
async function findNicByDevice(
  id: string,
  { files, root }: { readonly files: Files; readonly root: string },
): Promise<string | undefined> {
  if (!DEVICE_ID.test(id)) return undefined;
  const [pci] = await listPciNics(files, `${root}/sys/bus/pci/devices/${id}`);
  if (pci !== undefined) return pci;
  const [auxiliary] = await createNicLister(files)(`${root}/sys/bus/auxiliary/devices/${id}`);
  return auxiliary;
}

async function findNicByKernelPath(
  path: string,
  { files, root }: { readonly files: Files; readonly root: string },
): Promise<string | undefined> {
  if (!path.startsWith(DEVICES_DIRECTORY) || path.split("/").includes("..")) return undefined;
  const [name] = await createNicLister(files)(`${root}${path}`);
  return name;
}

interface IdentifiedNic extends WiredLink {
  readonly alias: string;
  readonly permanentMac: string;
}

function mapAttributesByIndex(messages: readonly Message[]): ReadonlyMap<number, Attributes> {
  const links = messages.filter(
    ({ type, body }) => type === RTM.newLink && body.length >= MESSAGE_HEADER_BYTES.link,
  );
  return new Map(
    links.map((message) => [
      toView(message).getInt32(4, true),
      decodeAttributes(message.body, MESSAGE_HEADER_BYTES.link),
    ]),
  );
}

function decodeNics(messages: readonly Message[]): readonly IdentifiedNic[] {
  const attributes = mapAttributesByIndex(messages);
  return decodeLinks(messages)
    .map((link): IdentifiedNic => {
      const nicAttributes = attributes.get(link.index) ?? new Map<number, Uint8Array>();
      const permanentMac = printMac(nicAttributes.get(IFLA.permanentAddress));
      return { ...link, alias: findText(nicAttributes, IFLA.alias), permanentMac };
    })
    .toSorted((a, b) => a.index - b.index);
}

/**
 * Finds a NIC whose name, index and MAC may have changed. Hardware is identified by its permanent MAC. Other NICs can
 * have equal MACs, so they are identified by their old name, which the plugin host-device saves as the alias. If no NIC
 * has this alias, returns the NIC that still has the old name and MAC.
 */
function findNic(links: readonly IdentifiedNic[], nic: NodeNic): IdentifiedNic | undefined {
  const sameKindLinks = links.filter(({ kind }) => kind === nic.kind);
  const { permanentMac } = nic;
  if (permanentMac !== undefined)
    return sameKindLinks.find((link) => link.permanentMac === permanentMac);
  return (
    sameKindLinks.find(({ alias }) => alias === nic.name) ??
    sameKindLinks.find(
      ({ name, mac }) => name === nic.name && normalizeMac(mac) === normalizeMac(nic.mac),
    )
  );
}

export interface HostLinksDeps {
  readonly namespaces: Namespaces;
  readonly podNetwork: Pick<PodNetwork, "listLinks">;
}

/** Opens the network namespace of the process `hostProcess`. The default is this process. @throws AppError with OS_PATH_REFUSED */
export function openHostNetns(
  hostProcess: number | undefined,
  { namespaces }: Pick<HostLinksDeps, "namespaces">,
): OpenNetns {
  const path = `/proc/${String(hostProcess ?? "self")}/ns/net`;
  const netns = namespaces.open(path);
  if (netns !== undefined) return netns;
  throw new AppError("OS_PATH_REFUSED", { path, reason: "it is not a network namespace" });
}

export async function listHostLinks(
  hostProcess: number | undefined,
  deps: HostLinksDeps,
): Promise<readonly Link[]> {
  const netns = openHostNetns(hostProcess, deps);
  try {
    return await deps.podNetwork.listLinks(netns);
  } finally {
    netns.close();
  }
}

export interface HostSubnet {
  readonly prefix: string;
  readonly link: string;
  readonly index: number;
  readonly kind: string;
}

const DEFAULT_LINK = { name: "", kind: "" };

function decodeSubnets(messages: readonly Message[]): readonly HostSubnet[] {
  const links = decodeLinks(messages);
  const byIndex = new Map(links.map((link) => [link.index, link]));
  const ofAddresses = links.flatMap(({ name, index, kind, addresses }) =>
    addresses.map((prefix) => ({ prefix, link: name, index, kind })),
  );
  const ofRoutes = decodeDestinations(messages).map(({ destination, index }) => {
    const { name, kind } = byIndex.get(index) ?? DEFAULT_LINK;
    return { prefix: destination, link: name, index, kind };
  });
  return [...ofAddresses, ...ofRoutes];
}

/** Lists addresses and routes of the host's network namespace, except default routes. @throws AppError with PODNET_FAILED */
export async function listHostSubnets(
  hostProcess: number | undefined,
  deps: Pick<HostLinksDeps, "namespaces"> & { readonly netlink: Netlink },
): Promise<readonly HostSubnet[]> {
  const netns = openHostNetns(hostProcess, deps);
  try {
    return decodeSubnets(await queryLinksAndRoutes(deps.netlink, netns));
  } finally {
    netns.close();
  }
}

interface NodeNicsOptions {
  readonly netlink: Netlink;
  readonly files: Files;
  /** Directory of the host's root file system, without a trailing slash. Empty if this process has the same root. */
  readonly root: string;
}

const ANY_NAME = "dev%d";
/** Source: errno(3), EEXIST */
const EXISTS = 17;

interface RestoreRequest {
  readonly message: Uint8Array;
  readonly description: string;
  readonly expectedErrno?: number;
}

function buildLinkMessage(
  index: number,
  flags: { set: number; mask: number },
  ...attributes: Uint8Array[]
) {
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.link);
  header.writeInt32LE(index, 4);
  header.writeUInt32LE(flags.set, 8);
  header.writeUInt32LE(flags.mask, 12);
  return encodeMessage(
    { type: RTM.newLink, flags: REQUEST_ACK },
    Buffer.concat([header, ...attributes]),
  );
}

const UNCHANGED_FLAGS = { set: 0, mask: 0 };
const DOWN_FLAGS = { set: 0, mask: LINK_FLAGS.up };

/** Returns requests that restore a link's settings. Sets the link down to change its name or MAC. */
function buildLinkRequests(link: IdentifiedNic, nic: NodeNic): readonly RestoreRequest[] {
  const { index } = link;
  const isRenamed = link.name !== nic.name;
  const hasOtherMac = normalizeMac(link.mac) !== normalizeMac(nic.mac);
  const willBeDown = isRenamed || hasOtherMac || !link.up;
  const up = { set: nic.up ? LINK_FLAGS.up : 0, mask: LINK_FLAGS.up };
  const requests: readonly (readonly [boolean, string, Uint8Array])[] = [
    [
      isRenamed,
      `name ${nic.name}`,
      buildLinkMessage(index, DOWN_FLAGS, encodeAttribute(IFLA.name, nic.name)),
    ],
    [
      hasOtherMac,
      `MAC ${nic.mac}`,
      buildLinkMessage(index, DOWN_FLAGS, encodeAttribute(IFLA.address, parseMac(nic.mac))),
    ],
    [
      link.mtu !== nic.mtu,
      `MTU ${String(nic.mtu)}`,
      buildLinkMessage(index, UNCHANGED_FLAGS, encodeAttribute(IFLA.mtu, u32(nic.mtu))),
    ],
    [
      link.alias !== nic.alias,
      `alias ${JSON.stringify(nic.alias)}`,
      buildLinkMessage(index, UNCHANGED_FLAGS, encodeAttribute(IFLA.alias, Buffer.from(nic.alias))),
    ],
    [willBeDown === nic.up, nic.up ? "up" : "down", buildLinkMessage(index, up)],
  ];
  return requests
    .filter(([isMissing]) => isMissing)
    .map(([, description, message]) => ({ description, message }));
}

/** Returns requests that restore addresses and routes. EEXIST is not a failure: it means that an address or route still exists. */
function buildAddressRequests({ index }: IdentifiedNic, nic: NodeNic): readonly RestoreRequest[] {
  const flags = REQUEST_ACK | CREATE | EXCLUSIVE;
  return [
    ...nic.addresses.map((body) => ({
      description: `address ${printAddress(body)}`,
      expectedErrno: EXISTS,
      message: encodeMessage({ type: RTM.newAddress, flags }, restoreAddressBody(body, index)),
    })),
    ...nic.routes.map((body) => ({
      description: `route ${printRoute(body)}`,
      expectedErrno: EXISTS,
      message: encodeMessage(
        { type: RTM.newRoute, flags },
        restoreRouteBody(body, nic.index, index),
      ),
    })),
  ];
}

function toNodeNic(link: IdentifiedNic, messages: readonly Message[]): NodeNic {
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
    addresses: saveAddresses(messages, index),
    routes: saveRoutes(messages, index),
  };
}

class KernelNodeNics implements NodeNics {
  readonly #options: NodeNicsOptions;

  constructor(options: NodeNicsOptions) {
    this.#options = options;
  }

  async find(host: NetnsHandle, selector: NodeNicName): Promise<NodeNic | undefined> {
    const messages = await queryLinksAndRoutes(this.#options.netlink, host);
    const links = decodeNics(messages);
    const name = await this.#findName(selector, links);
    const link = links.find((candidate) => candidate.name === name);
    return link && toNodeNic(link, messages);
  }

  async returnToHost(pod: NetnsHandle, name: string, host: NetnsHandle): Promise<void> {
    const index = (await queryLinkIndices(this.#options.netlink, pod)).get(name);
    if (index === undefined) return;
    const attributes = [
      encodeAttribute(IFLA.name, ANY_NAME),
      encodeAttribute(IFLA.netnsFd, u32(host.fd)),
    ];
    const errno = await this.#send(pod, buildLinkMessage(index, UNCHANGED_FLAGS, ...attributes));
    if (errno === 0) return;
    const message = `the kernel refused to move ${name} to the host: ${describeErrno(errno)}`;
    throw new AppError("PODNET_FAILED", { message });
  }

  async restore(host: NetnsHandle, nic: NodeNic): ReturnType<NodeNics["restore"]> {
    const links = decodeNics(await queryLinksAndRoutes(this.#options.netlink, host));
    const link = findNic(links, nic);
    if (link === undefined) return { kind: "absent" };
    const faults: string[] = [];
    for (const { description, message, expectedErrno } of [
      ...buildLinkRequests(link, nic),
      ...buildAddressRequests(link, nic),
    ]) {
      const errno = await this.#send(host, message);
      if (errno !== 0 && errno !== expectedErrno)
        faults.push(`${description}: ${describeErrno(errno)}`);
    }
    return { kind: "there", rejectedSettings: faults };
  }

  async #send(netns: NetnsHandle, message: Uint8Array): Promise<number> {
    const [answer] = await this.#options.netlink.exchangeMessages(netns, "route", [message]);
    return answer?.errno ?? 0;
  }

  async #findName(
    selector: NodeNicName,
    links: readonly IdentifiedNic[],
  ): Promise<string | undefined> {
    switch (selector.by) {
      case "name":
        return selector.name;
      case "mac":
        return links.find(({ mac }) => normalizeMac(mac) === normalizeMac(selector.mac))?.name;
      case "kernelPath":
        return findNicByKernelPath(selector.path, this.#options);
      case "device":
        return findNicByDevice(selector.id, this.#options);
    }
  }
}

export function createNodeNics(options: NodeNicsOptions): NodeNics {
  return new KernelNodeNics(options);
}
