// SPDX-License-Identifier: Apache-2.0
import { isIpv6LinkLocal } from "../nics/addresses/lease.ts";
import {
  findFrameLoss,
  judgePartialLoss,
  judgeFrameLoss,
  findExternalMac,
  judgeMtu,
  type FactsWithFaults,
  isMisdirected,
} from "./frame-loss.ts";
import type { ObservedPath, PathFacts, PathLink } from "./facts.ts";
import { findTrace } from "./judge-guest.ts";
import {
  notApplicable,
  dead,
  findFirstVerdict,
  ok,
  uncertain,
  unknown,
  withFix,
  type Verdict,
} from "./report.ts";
import { isWithin, toNetworkAddress, parseIp } from "@patchbay/api/values";

/** Lists the MACs that wrongly answer for the gateway's address. If the node is not the gateway, the first MAC counts as the gateway's. */
function listClaimants(
  { target, links }: ObservedPath,
  hosts: readonly string[],
): readonly string[] {
  if (target?.at !== "bridge") return hosts.slice(1);
  const nodeMacs = [links.nodeBridge, links.nodePeer].flatMap((link) => link?.mac ?? []);
  return hosts.filter((mac) => !nodeMacs.includes(mac));
}

function judgeClaimants(
  facts: PathFacts,
  observed: ObservedPath,
  macs: readonly string[],
): Verdict | undefined {
  const hosts = macs.filter((mac) => mac !== facts.device?.mac);
  if (listClaimants(observed, hosts).length === 0) return undefined;
  const traces = [findTrace(facts, "ping"), findTrace(facts, "connect")];
  const usedMacs = new Set(traces.flatMap((trace) => trace?.repliedTo ?? []));
  const guest = usedMacs.size === 0 ? "" : `; the guest sends to ${[...usedMacs].join(", ")}`;
  const why = `${hosts.join(" and ")} answer for this address${guest}`;
  const [claimant = ""] = listClaimants(observed, hosts);
  return dead("GatewayClaimed", why, observed.target?.address, { MAC: claimant });
}

function judgeReplyAddress(
  facts: PathFacts,
  { target, source }: ObservedPath,
): Verdict | undefined {
  const echo = findTrace(facts, "echo");
  if (echo === undefined || !isMisdirected(facts, echo)) return undefined;
  const why = `it sends its answers to ${echo.repliedTo.join(", ")}, and the address is at ${findExternalMac(facts) ?? ""}`;
  return dead(
    "NeighborWrong",
    why,
    target?.address,
    source === undefined ? {} : { ADDRESS: source },
  );
}

function judgePrefix({ target, links, source }: ObservedPath): Verdict | undefined {
  const guest = source === undefined ? undefined : parseIp(source);
  if (target?.at !== "bridge" || guest === undefined) return undefined;
  const nodeAddresses = [links.nodeBridge, links.nodePeer].flatMap((link) => link?.addresses ?? []);
  const gatewayAddresses = nodeAddresses.filter((text) => text.split("/")[0] === target.address);
  const coversGuest = nodeAddresses.some((text) => {
    const subnet = parseIp(text);
    return subnet !== undefined && isWithin(guest, toNetworkAddress(subnet));
  });
  if (gatewayAddresses.length === 0 || coversGuest) return undefined;
  const why = `it answers ARP, not IP: the node has it as ${gatewayAddresses.join(", ")}, a network without ${source ?? ""}`;
  return dead("GatewayPrefixWrong", why, target.address, { CIDR: gatewayAddresses[0] ?? "" });
}

function judgeForwarding({ forwarded, target, source }: ObservedPath): Verdict | undefined {
  if (forwarded === undefined || forwarded.hasReply) return undefined;
  const { link, gateway, sentAs, repliesToNode } = forwarded;
  const pingsText = `pings of the guest to ${gateway} by ${link}`;
  if (sentAs === "no") {
    const why = `the node does not forward ${pingsText}`;
    return dead("ForwardingRefused", why, target?.address);
  }
  if (!repliesToNode) return undefined;
  if (sentAs === "asGuest") {
    return dead(
      "MasqueradeMissing",
      `${pingsText} leave with the guest's own address, and are not answered`,
      link,
      { DEV: link, ...(source === undefined ? {} : { ADDRESS: source }) },
    );
  }
  return dead(
    "ForwardingRefused",
    `answers to ${pingsText} do not come back through the node`,
    target?.address,
  );
}

/** Judges the node's route to the guest. Must be called only if the node does not answer the guest's pings. */
function judgeNodeRoutes({ routeFaults, target, source }: ObservedPath): Verdict | undefined {
  const fault = routeFaults?.find(({ at }) => at === "node");
  if (fault === undefined) return undefined;
  const why = `the node does not route answers to the guest: \`${fault.command}\`: ${fault.problem}`;
  return dead(
    "RouteMissing",
    why,
    target?.address,
    source === undefined ? {} : { ADDRESS: source },
  );
}

/** Judges the uplink of a node that is the guest's gateway. A missing default route may be intended, and is no proven fault. */
function judgeNodeUplink({ nodeUplinkFault: fault }: ObservedPath): Verdict | undefined {
  if (fault === undefined) return undefined;
  const { link = "", problem } = fault;
  if (problem === "noRoute") {
    const why =
      "it answers, but the node has no IPv4 default route: the guest reaches no other network";
    return uncertain("RouteMissing", why);
  }
  const why = "the node does not reach other networks, because this link";
  return problem === "down"
    ? dead("UplinkDown", `${why} is down`, link, { DEV: link })
    : dead("NoCarrier", `${why} has no carrier`, link, { DEV: link });
}

function judgeAnsweringGateway(
  facts: PathFacts,
  observed: ObservedPath,
  macs: readonly string[],
): Verdict {
  const { target } = observed;
  const echo = findTrace(facts, "echo");
  const repliesText = `answered by ${macs.join(", ")}`;
  const fault = findFirstVerdict(() => judgeReplyAddress(facts, observed));
  if (fault !== undefined) return fault;
  if (echo === undefined || echo.replySeenAt.length > 0) {
    return (
      judgeNodeUplink(observed) ?? judgeForwarding(observed) ?? ok(repliesText, target?.address)
    );
  }
  const why = `${repliesText}; it answers ARP, not IP: it may refuse pings, or the address may belong to another host`;
  return (
    findFirstVerdict(
      () => judgePrefix(observed),
      () => judgeNodeRoutes(observed),
      () => judgeForwarding(observed),
    ) ?? unknown(why, target?.address)
  );
}

const NO_VISIBLE_PEER = "the pod NIC leads to nothing that can be seen on the node";

/** Returns the VLAN of the guest's frames on the node's bridge. Undefined if the bridge does not filter VLANs or drops the frames. */
function findVlan({ links }: ObservedPath): number | undefined {
  return links.nodeBridge?.canFilterVlans === true ? links.nodePeer?.untaggedVlan : undefined;
}

function isOutwardLost(facts: PathFacts): boolean {
  return (findTrace(facts, "outward")?.replySeenAt.length ?? 0) === 0;
}

/**
 * Checks whether a missing reply of the target proves a fault. It does not if the target is another guest, which may be stopped, or a
 * gateway that no route uses, which IPAM may have invented.
 */
function isCertainTarget({ target }: ObservedPath): boolean {
  return target !== undefined && target.isGuest !== true && target.isUnrouted !== true;
}

function isGatewayLost(facts: PathFacts): boolean {
  const isGateway = facts.observed !== undefined && isCertainTarget(facts.observed);
  return isGateway && findTrace(facts, "outward") !== undefined && isOutwardLost(facts);
}

/**
 * Judges a peer that is in no bridge. Returns undefined if the peer is in a bridge, or if the pod does not bridge the NIC. Also returns
 * undefined if the peer has an address or the outward probe got a reply: in these cases, the node routes the guest's packets.
 */
function judgePeerMaster(
  facts: PathFacts,
  peer: PathLink,
  observed: ObservedPath,
): Verdict | undefined {
  const hasAddress = peer.addresses.some((address) => !isIpv6LinkLocal(address));
  if (peer.master !== undefined || hasAddress || !isOutwardLost(facts) || !observed.isBridged) {
    return undefined;
  }
  const why = "it is a port of no bridge";
  // A BPF program on the link can forward frames without a bridge or a route. If the filters are unknown, such a program may exist.
  const hasProgram = observed.filters?.some(({ link }) => link === peer.name) !== false;
  const isCutOff = observed.isPeerRouted === false && !hasProgram;
  return isGatewayLost(facts) || isCutOff
    ? dead("PeerOutOfBridge", why, peer.name)
    : unknown(`${why}; no gateway is known whose answer shows whether it is routed`, peer.name);
}

function buildVlanVerdict(why: string, name: string, vlan: number | undefined): Verdict {
  return dead("VlanMissing", why, name, vlan === undefined ? {} : { VLAN: String(vlan) });
}

/** Adds flags to the fix's command. Without flags, `bridge vlan` adds a tagged VLAN, and only to a bridge port. */
function withVlanFlags(flags: "self" | "pvid untagged", verdict: Verdict): Verdict {
  return { ...verdict, fix: verdict.fix?.replace("dev DEV", `dev DEV ${flags}`) ?? "" };
}

function judgePeerVlan(peer: PathLink, { links }: ObservedPath): Verdict | undefined {
  if (links.nodeBridge?.canFilterVlans !== true || peer.untaggedVlan !== undefined)
    return undefined;
  const why = `bridge ${links.nodeBridge.name} filters VLANs, and this port has none for untagged frames`;
  const vlans = new Set(links.uplinks.flatMap((uplink) => uplink.vlans));
  const [vlan] = vlans.size === 1 ? vlans : [];
  return withVlanFlags("pvid untagged", buildVlanVerdict(why, peer.name, vlan));
}

function judgePortState({ isBlocked, name }: PathLink): Verdict | undefined {
  return isBlocked
    ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", name)
    : undefined;
}

/** Judges a pod NIC whose peer is not on the node. A veth is dead if it has no carrier or the gateway sends no reply. */
function judgeHiddenPeer(facts: PathFacts): Verdict {
  const nic = facts.observed?.links.podNic;
  if (nic?.kind !== "veth" || (nic.carrier && !isGatewayLost(facts)))
    return unknown(NO_VISIBLE_PEER);
  const why = "the other end of the pod NIC is a veth that is not in the node's network namespace";
  return dead("PeerElsewhere", why, nic.name);
}

export function judgeNodePeer(facts: FactsWithFaults): Verdict {
  const { observed } = facts;
  if (observed === undefined || observed.links.onNode === "unseen") return judgeHiddenPeer(facts);
  if (observed.links.onNode === "parent")
    return notApplicable("the pod NIC is part of a NIC of the node");
  const peer = observed.links.nodePeer;
  if (peer === undefined) return unknown(NO_VISIBLE_PEER);
  return (
    findFirstVerdict(
      () => (peer.up ? undefined : dead("PeerDown", "it is down", peer.name)),
      () => judgePeerMaster(facts, peer, observed),
      () => judgePortState(peer),
      () => judgePeerVlan(peer, observed),
      () =>
        peer.dropsBroadcasts === true
          ? dead("BroadcastsBlocked", "its bridge sends no broadcasts to this port", peer.name)
          : undefined,
      () => judgeMtu(facts, peer),
      () => judgeFrameLoss(facts, "nodePeer", peer.name),
    ) ?? ok(peer.master === undefined ? "it is up" : `it is a port of ${peer.master}`, peer.name)
  );
}

function judgeBridgeVlan(observed: ObservedPath, bridge: PathLink): Verdict | undefined {
  const vlan = findVlan(observed);
  if (vlan === undefined || observed.target?.at !== "bridge" || bridge.vlans.includes(vlan)) {
    return undefined;
  }
  const why = `the gateway is reached through VLAN ${String(vlan)}, which this bridge does not carry`;
  return withVlanFlags("self", buildVlanVerdict(why, bridge.name, vlan));
}

function judgeForwardingEntry(observed: ObservedPath): Verdict | undefined {
  const wrongEntry = (observed.entries ?? []).find(({ at }) => at === "node");
  if (wrongEntry === undefined) return undefined;
  const { mac, port } = wrongEntry;
  const why = `a fixed forwarding entry leads ${mac} to ${port}`;
  return dead("EntryElsewhere", why, port, { MAC: mac });
}

function judgeNodeNeighbor(facts: PathFacts, observed: ObservedPath): Verdict | undefined {
  const mac = findExternalMac(facts);
  const wrongNeighbor = (observed.neighbors ?? []).find(
    (neighbor) => neighbor.at === "node" && neighbor.mac !== mac,
  );
  if (wrongNeighbor === undefined || mac === undefined) return undefined;
  const { address, link } = wrongNeighbor;
  const why = `the node has a fixed neighbor entry for ${address} with MAC ${wrongNeighbor.mac}, which is at ${mac}`;
  return dead("NeighborWrong", why, link, { ADDRESS: address });
}

export function judgeNodeBridge(facts: FactsWithFaults): Verdict {
  const { observed } = facts;
  if (observed === undefined || observed.links.onNode === "unseen") return unknown(NO_VISIBLE_PEER);
  const bridge = observed.links.nodeBridge;
  if (bridge === undefined) return notApplicable("the pod NIC is a port of no bridge on the node");
  return (
    findFirstVerdict(
      () => (bridge.up ? undefined : dead("NodeBridgeDown", "it is down", bridge.name)),
      () => judgeBridgeVlan(observed, bridge),
      () => judgeForwardingEntry(observed),
      () => judgeNodeNeighbor(facts, observed),
      () => judgeFrameLoss(facts, "nodeBridge", bridge.name),
    ) ?? ok("it is up", bridge.name)
  );
}

function judgeUplinkLink(
  uplink: PathLink,
  facts: PathFacts,
  observed: ObservedPath,
): Verdict | undefined {
  const vlan = findVlan(observed);
  const { name } = uplink;
  return findFirstVerdict(
    () => (uplink.up ? undefined : dead("UplinkDown", "it is down", name)),
    () => (uplink.carrier ? undefined : dead("NoCarrier", "it has no carrier", name)),
    () => judgePortState(uplink),
    () =>
      vlan === undefined || uplink.vlans.includes(vlan)
        ? undefined
        : buildVlanVerdict(`it does not take VLAN ${String(vlan)} of the guest`, name, vlan),
    () => judgeMtu(facts, uplink),
  );
}

function judgeMissingUplink(facts: PathFacts, observed: ObservedPath): Verdict {
  if (observed.links.nodeBridge === undefined)
    return notApplicable("frames are routed on the node");
  const why = "the bridge has no port but those of pods";
  if (observed.target === undefined) return unknown(`${why}: only guests of this node are reached`);
  return isOutwardLost(facts) && observed.target.at === "beyond" && isCertainTarget(observed)
    ? dead("UplinkMissing", `${why}, and ${observed.target.address} does not answer`)
    : notApplicable(`${why}, and needs none`);
}

export function judgeUplink(facts: FactsWithFaults): Verdict {
  const { observed } = facts;
  if (observed === undefined || observed.links.onNode === "unseen") return unknown(NO_VISIBLE_PEER);
  const { uplinks } = observed.links;
  const [firstUplink] = uplinks;
  if (firstUplink === undefined) return judgeMissingUplink(facts, observed);
  const faults = uplinks.map((uplink) => judgeUplinkLink(uplink, facts, observed));
  const healthyUplink = uplinks.find((_uplink, position) => faults[position] === undefined);
  const fault =
    healthyUplink === undefined ? faults.find((verdict) => verdict !== undefined) : undefined;
  const name = (healthyUplink ?? firstUplink).name;
  return fault ?? judgeFrameLoss(facts, "uplink", name) ?? ok("it is up", name);
}

export function judgeGateway(facts: FactsWithFaults): Verdict {
  const { observed } = facts;
  if (observed?.target === undefined) return unknown("no gateway and no neighbour of it is known");
  const { address } = observed.target;
  const trace = findTrace(facts, "outward");
  if (trace === undefined) return unknown("it was not asked", address);
  if (trace.replySeenAt.length > 0) {
    return (
      findFirstVerdict(
        () => judgeClaimants(facts, observed, trace.repliedFrom),
        () => judgeSpecialFrameLoss(facts, address),
        () =>
          observed.target?.isGuest === true
            ? undefined
            : judgePartialLoss(facts, "gateway", address),
      ) ?? judgeAnsweringGateway(facts, observed, trace.repliedFrom)
    );
  }
  if (observed.target.isGuest === true) {
    const why = "another guest does not answer at this address; no gateway is known to probe";
    return unknown(why, address);
  }
  if (observed.target.isUnrouted === true && observed.target.isMissing !== true) {
    const why = "CNI returned this gateway without a route, and no host answers: it may not exist";
    return unknown(why, address);
  }
  if (observed.target.isMissing === true) {
    const why =
      "the node translates for this network, and its bridge has not the gateway's address";
    return dead("GatewayAddressMissing", why, address);
  }
  return findFrameLoss(trace, observed) === "gateway"
    ? dead("GatewaySilent", "requests reach the last observable hop, and no reply arrives", address)
    : unknown("no request has reached the last observable hop", address);
}

/** Size of the headers of a ping, in bytes: IPv4 and ICMP. */
const IPV4_PING_BYTES = 28;

/** Judges lost probes that are large or have unfinished checksums. Ignores lost ordinary pings, because a gateway may ignore all pings. */
function judgeSpecialFrameLoss(facts: FactsWithFaults, address: string): Verdict | undefined {
  const loss = judgeFrameLoss(facts, "gateway", address);
  if (loss?.reason === "FramesLost" || loss?.reason === "LossyLink") return undefined;
  if (loss?.reason !== "MtuSmaller") return loss;
  const mtu = facts.device?.mtu ?? facts.observed?.links.tap?.mtu;
  const ping = "beyond this node (`ping -M do -c 3 -s SIZE ADDRESS` tests the path): ";
  const values = mtu === undefined ? {} : { SIZE: String(mtu - IPV4_PING_BYTES) };
  return { ...withFix(ping, loss), values };
}
