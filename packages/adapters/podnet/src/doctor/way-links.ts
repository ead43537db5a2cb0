// SPDX-License-Identifier: Apache-2.0
// The links of a NIC's way in the pod and on the node, as rtnetlink tells them. Source: linux/if_link.h, linux/if_bridge.h
import type { SeenWiring, WayLink, WayLinks } from "@patchbay/core";
import type { Netlink, NetnsHandle } from "@patchbay/core/ports";
import { askWhole, dumpOf, LINKS } from "../netlink/ask.ts";
import {
  attributesIn,
  DUMP,
  findNumber,
  messageOf,
  valuesIn,
  type Message,
} from "../netlink/message.ts";
import {
  addressIn,
  AF_BRIDGE,
  HEAD,
  IFLA,
  linkWordsIn,
  RTM,
  viewOf,
} from "../netlink/rtnetlink.ts";
import { attribute, u32 } from "../netlink/write.ts";

/** A link, and by which numbers others name it. */
interface Told extends WayLink {
  readonly index: number;
  readonly masterIndex: number;
  /** Of its other end, or its parent. */
  readonly partnerIndex: number;
  /** Its other end, or its parent, is in another namespace. */
  readonly isAcross: boolean;
}

const [IFLA_LINK, IFLA_LINK_NETNSID] = [5, 37];
/** Of a port: its state, of which 3 is forwarding. Of a bridge: whether it filters. */
const [PORT_STATE, FORWARDING, VLAN_FILTERING] = [1, 3, 7];
const [AF_SPEC, VLAN_INFO, IS_UNTAGGED_VLAN] = [26, 2, 0x2];

/** With the VLANs of each. Source: RTEXT_FILTER_BRVLAN */
const VLANS = messageOf(
  { type: RTM.getLink, flags: DUMP },
  Buffer.concat([dumpOf(0, HEAD.link, AF_BRIDGE).subarray(16), attribute(29, u32(2))]),
);

interface Vlans {
  readonly vlans: readonly number[];
  readonly untaggedVlan?: number;
}

function vlansIn(messages: readonly Message[]): ReadonlyMap<number, Vlans> {
  const told = messages.filter(
    ({ type, body }) => type === RTM.newLink && body.length >= HEAD.link,
  );
  return new Map(
    told.map((message) => {
      const spec = attributesIn(message.body, HEAD.link).get(AF_SPEC) ?? new Uint8Array();
      const rows = valuesIn(spec, VLAN_INFO).map((row) => Buffer.from(row));
      const untagged = rows.find((row) => (row.readUInt16LE(0) & IS_UNTAGGED_VLAN) !== 0);
      return [
        viewOf(message).getInt32(4, true),
        {
          vlans: rows.map((row) => row.readUInt16LE(2)),
          ...(untagged === undefined ? {} : { untaggedVlan: untagged.readUInt16LE(2) }),
        },
      ];
    }),
  );
}

function toldIn(message: Message): readonly Omit<Told, "addresses" | "master" | "vlans">[] {
  const words = linkWordsIn(message);
  if (words === undefined) return [];
  const { base, attributes, data, port } = words;
  const state = findNumber(port, PORT_STATE) ?? FORWARDING;
  return [
    {
      ...base,
      // A port that is down, or without a carrier, is disabled too, and that is said of it elsewhere.
      isBlocked: ![0, FORWARDING].includes(state),
      filtersVlans: findNumber(data, VLAN_FILTERING) === 1,
      masterIndex: findNumber(attributes, IFLA.master) ?? 0,
      partnerIndex: findNumber(attributes, IFLA_LINK) ?? 0,
      isAcross: attributes.has(IFLA_LINK_NETNSID),
    },
  ];
}

/** The links of a namespace. */
async function tell(netlink: Netlink, netns: NetnsHandle): Promise<readonly Told[]> {
  const messages = await askWhole(netlink, netns, LINKS);
  const vlans = vlansIn(await askWhole(netlink, netns, [VLANS]));
  const links = messages.flatMap(toldIn);
  const addresses = messages.flatMap((message) => addressIn(message) ?? []);
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

/** What leads on is no pod's: neither a veth across namespaces, nor a guest's tap. */
function isUplink({ kind, isAcross }: Told): boolean {
  return !(kind === "veth" && isAcross) && kind !== "tun";
}

function onNode(nic: Told | undefined, links: readonly Told[]): Omit<WayLinks, "tap"> {
  const unseen = { uplinks: [], onNode: "unseen" } as const;
  const partner = links.find(({ index }) => index === nic?.partnerIndex);
  if (nic === undefined || partner === undefined || !nic.isAcross) return unseen;
  if (nic.kind !== "veth") return { uplinks: [partner], onNode: "parent" };
  // Namespaces may number their links alike.
  if (partner.kind !== "veth" || partner.partnerIndex !== nic.index) return unseen;
  const bridge = links.find(({ index }) => index === partner.masterIndex);
  const ports = links.filter(
    ({ index, masterIndex }) => masterIndex === bridge?.index && index !== partner.index,
  );
  return {
    nodePeer: partner,
    ...(bridge === undefined ? {} : { nodeBridge: bridge }),
    uplinks: ports.filter(isUplink),
    onNode: "peer",
  };
}

/** Looks at both namespaces. */
export async function lookAtWay(
  netlink: Netlink,
  { pod, node }: { readonly pod: NetnsHandle; readonly node: NetnsHandle },
  wiring: SeenWiring,
): Promise<WayLinks> {
  const [inPod, there] = await Promise.all([tell(netlink, pod), tell(netlink, node)]);
  const named = (name: string): Told | undefined => inPod.find((link) => link.name === name);
  const nic = named(wiring.podInterfaceName);
  const tap = named(wiring.tapName);
  const bridge = wiring.kind === "tap" ? undefined : named(wiring.bridgeName);
  return {
    ...onNode(nic, there),
    ...(tap === undefined ? {} : { tap }),
    ...(bridge === undefined ? {} : { podBridge: bridge }),
    ...(nic === undefined ? {} : { podNic: nic }),
  };
}
