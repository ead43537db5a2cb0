// SPDX-License-Identifier: Apache-2.0
// Links on a NIC's path, in the pod and on the node. Source: linux/if_link.h, linux/if_bridge.h
import type { ObservedWiring } from "@patchbay/core/nics";
import type { PathLink, PathLinks } from "@patchbay/core/doctor";
import type { Netlink, NetnsHandle } from "@patchbay/core/interfaces";
import { dumpTables, buildDumpRequest, LINK_REQUESTS } from "../netlink/queries.ts";
import {
  type Attributes,
  encodeAttribute,
  decodeAttributes,
  REQUEST_DUMP,
  encodeMessage,
  findNumber,
  findValues,
  type Message,
  u32,
} from "../netlink/message.ts";
import {
  AF_BRIDGE,
  decodeAddress,
  decodeLinkFields,
  MESSAGE_HEADER_BYTES,
  IFLA,
  RTM,
  toView,
} from "../netlink/rtnetlink.ts";

interface LinkWithIndices extends PathLink {
  readonly index: number;
  readonly masterIndex: number;
  readonly partnerIndex: number;
  /** Whether the veth peer or the parent link is in another network namespace. */
  readonly isPartnerElsewhere: boolean;
}

const [IFLA_LINK, IFLA_LINK_NETNSID] = [5, 37];
/** IFLA_BRPORT_STATE, BR_STATE_FORWARDING and IFLA_BR_VLAN_FILTERING. */
const [PORT_STATE, FORWARDING, VLAN_FILTERING] = [1, 3, 7];
/** IFLA_BRPORT_PROXYARP, IFLA_BRPORT_PROXYARP_WIFI, IFLA_BRPORT_BCAST_FLOOD and IFLA_BRPORT_NEIGH_SUPPRESS. */
const [PROXY_ARP, PROXY_ARP_WIFI, BROADCAST_FLOOD, NEIGHBOR_SUPPRESS] = [10, 12, 30, 32];

/** Checks whether a bridge neither sends broadcasts to the port nor answers ARP requests for hosts behind the port. */
function dropsBroadcasts(port: Attributes): boolean {
  const answersArp = [PROXY_ARP, PROXY_ARP_WIFI, NEIGHBOR_SUPPRESS].some(
    (type) => (findNumber(port, type) ?? 0) !== 0,
  );
  return findNumber(port, BROADCAST_FLOOD) === 0 && !answersArp;
}

const [AF_SPEC, VLAN_INFO, IS_UNTAGGED_VLAN] = [26, 2, 0x2];

/** Request for the VLANs of all bridge ports. Source: RTEXT_FILTER_BRVLAN */
const VLANS_REQUEST = encodeMessage(
  { type: RTM.getLink, flags: REQUEST_DUMP },
  Buffer.concat([
    buildDumpRequest(0, MESSAGE_HEADER_BYTES.link, AF_BRIDGE).subarray(16),
    encodeAttribute(29, u32(2)),
  ]),
);

interface Vlans {
  readonly vlans: readonly number[];
  readonly untaggedVlan?: number;
}

function decodeVlans(messages: readonly Message[]): ReadonlyMap<number, Vlans> {
  const portMessages = messages.filter(
    ({ type, body }) => type === RTM.newLink && body.length >= MESSAGE_HEADER_BYTES.link,
  );
  return new Map(
    portMessages.map((message) => {
      const specBytes =
        decodeAttributes(message.body, MESSAGE_HEADER_BYTES.link).get(AF_SPEC) ?? new Uint8Array();
      const rows = findValues(specBytes, VLAN_INFO).map((row) => Buffer.from(row));
      const untagged = rows.find((row) => (row.readUInt16LE(0) & IS_UNTAGGED_VLAN) !== 0);
      return [
        toView(message).getInt32(4, true),
        {
          vlans: rows.map((row) => row.readUInt16LE(2)),
          ...(untagged === undefined ? {} : { untaggedVlan: untagged.readUInt16LE(2) }),
        },
      ];
    }),
  );
}

function decodeLinkWithIndices(
  message: Message,
): readonly Omit<LinkWithIndices, "addresses" | "master" | "vlans">[] {
  const fields = decodeLinkFields(message);
  if (fields === undefined) return [];
  const { base, attributes, data, port } = fields;
  const state = findNumber(port, PORT_STATE) ?? FORWARDING;
  return [
    {
      ...base,
      // State 0 (disabled) is not blocked: a port also has this state while it is down or has no carrier, which other fields report.
      isBlocked: ![0, FORWARDING].includes(state),
      ...(dropsBroadcasts(port) ? { dropsBroadcasts: true } : {}),
      canFilterVlans: findNumber(data, VLAN_FILTERING) === 1,
      masterIndex: findNumber(attributes, IFLA.master) ?? 0,
      partnerIndex: findNumber(attributes, IFLA_LINK) ?? 0,
      isPartnerElsewhere: attributes.has(IFLA_LINK_NETNSID),
    },
  ];
}

async function listLinks(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<readonly LinkWithIndices[]> {
  const messages = await dumpTables(netlink, netns, LINK_REQUESTS);
  const vlans = decodeVlans(await dumpTables(netlink, netns, [VLANS_REQUEST]));
  const links = messages.flatMap(decodeLinkWithIndices);
  const addresses = messages.flatMap((message) => decodeAddress(message) ?? []);
  return links.map((link) => {
    const master = links.find(({ index }) => index === link.masterIndex)?.name;
    return {
      ...link,
      vlans: [],
      ...vlans.get(link.index),
      addresses: addresses.filter(({ index }) => index === link.index).map(({ text }) => text),
      ...(master === undefined ? {} : { master }),
    };
  });
}

/** Checks whether a port leads out of the node. All ports do, except veths of other pods and guests' taps. */
function isUplink({ kind, isPartnerElsewhere }: LinkWithIndices): boolean {
  return !(kind === "veth" && isPartnerElsewhere) && kind !== "tun";
}

function locateOnNode(
  nic: LinkWithIndices | undefined,
  links: readonly LinkWithIndices[],
): Omit<PathLinks, "tap"> {
  const unknownPath = { uplinks: [], onNode: "unseen" } as const;
  const partner = links.find(({ index }) => index === nic?.partnerIndex);
  if (nic === undefined || partner === undefined || !nic.isPartnerElsewhere) return unknownPath;
  if (nic.kind !== "veth") return { uplinks: [partner], onNode: "parent" };
  // Links of different network namespaces can have equal indexes, so the partner is the NIC's peer only if it also refers to the NIC.
  if (partner.kind !== "veth" || partner.partnerIndex !== nic.index) return unknownPath;
  const bridge = links.find(({ index }) => index === partner.masterIndex);
  const ports = links.filter(
    ({ index, masterIndex }) => masterIndex === bridge?.index && index !== partner.index,
  );
  return {
    nodePeer: partner,
    ...(bridge === undefined
      ? { bridges: links.filter(({ kind }) => kind === "bridge") }
      : { nodeBridge: bridge }),
    uplinks: ports.filter(isUplink),
    onNode: "peer",
  };
}

export async function readPathLinks(
  netlink: Netlink,
  { pod, node }: { readonly pod: NetnsHandle; readonly node: NetnsHandle },
  wiring: ObservedWiring,
): Promise<PathLinks> {
  const [podLinks, nodeLinks] = await Promise.all([
    listLinks(netlink, pod),
    listLinks(netlink, node),
  ]);
  const findInPod = (name: string): LinkWithIndices | undefined =>
    podLinks.find((link) => link.name === name);
  const nic = findInPod(wiring.podInterfaceName);
  const tap = findInPod(wiring.tapName);
  const bridge = wiring.kind === "tap" ? undefined : findInPod(wiring.bridgeName);
  return {
    ...locateOnNode(nic, nodeLinks),
    ...(tap === undefined ? {} : { tap }),
    ...(bridge === undefined ? {} : { podBridge: bridge }),
    ...(nic === undefined ? {} : { podNic: nic }),
  };
}
