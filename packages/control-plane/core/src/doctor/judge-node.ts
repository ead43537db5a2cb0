// SPDX-License-Identifier: Apache-2.0
import { isIpv6LinkLocal } from "../nics/addresses/lease.ts";
import {
  findFrameLoss,
  judgePartialLoss,
  judgeFrameLoss,
  findExternalMac,
  judgeMtu,
  type JudgedFacts,
  isMisdirected,
} from "./frame-loss.ts";
import type { ObservedPath, PathFacts, PathLink } from "./facts.ts";
import { findTrace } from "./judge-guest.ts";
import { notApplicable, dead, firstVerdict, ok, unknown, withFix, type Verdict } from "./report.ts";
import { isWithin, toNetworkAddress, parseIp } from "@patchbay/api/values";

/** Returns the MACs that wrongly answer for the gateway's address: all but the node's own, or all but the first. */
function listClaimants(
  { target, links }: ObservedPath,
  hosts: readonly string[],
): readonly string[] {
  if (target?.at !== "bridge") return hosts.slice(1);
  const own = [links.nodeBridge, links.nodePeer].flatMap((link) => link?.mac ?? []);
  return hosts.filter((mac) => !own.includes(mac));
}

function judgeClaimants(
  facts: PathFacts,
  observed: ObservedPath,
  macs: readonly string[],
): Verdict | undefined {
  const hosts = macs.filter((mac) => mac !== facts.device?.mac);
  if (listClaimants(observed, hosts).length === 0) return undefined;
  const traces = [findTrace(facts, "ping"), findTrace(facts, "connect")];
  const used = new Set(traces.flatMap((trace) => trace?.repliedTo ?? []));
  const guest = used.size === 0 ? "" : `; the guest sends to ${[...used].join(", ")}`;
  const why = `${hosts.join(" and ")} answer for this address${guest}`;
  return dead("GatewayClaimed", why, observed.target?.address);
}

function judgeReplyAddress(facts: PathFacts, { target }: ObservedPath): Verdict | undefined {
  const echo = findTrace(facts, "echo");
  if (echo === undefined || !isMisdirected(facts, echo)) return undefined;
  const why = `it sends its answers to ${echo.repliedTo.join(", ")}, and the address is at ${findExternalMac(facts) ?? ""}`;
  return dead("NeighborWrong", why, target?.address);
}

/** Judges whether the node's addresses cover the guest's. Otherwise replies from the gateway address go elsewhere. */
function judgePrefix({ target, links, source }: ObservedPath): Verdict | undefined {
  const guest = source === undefined ? undefined : parseIp(source);
  if (target?.at !== "bridge" || guest === undefined) return undefined;
  const all = [links.nodeBridge, links.nodePeer].flatMap((link) => link?.addresses ?? []);
  const own = all.filter((text) => text.split("/")[0] === target.address);
  const reaches = all.some((text) => {
    const subnet = parseIp(text);
    return subnet !== undefined && isWithin(guest, toNetworkAddress(subnet));
  });
  if (own.length === 0 || reaches) return undefined;
  const why = `it answers ARP, not IP: the node has it as ${own.join(", ")}, a network without ${source ?? ""}`;
  return dead("GatewayPrefixWrong", why, target.address);
}

/** Judges whether the node forwards and masquerades the guest's packets. */
function judgeForwarding({ forwarded, target }: ObservedPath): Verdict | undefined {
  if (forwarded === undefined || forwarded.hasReply) return undefined;
  const { link, gateway, sentAs, repliesToNode } = forwarded;
  const to = `pings of the guest to ${gateway} by ${link}`;
  if (sentAs === "no") {
    const why = `the node does not forward ${to}`;
    return dead("ForwardingRefused", why, target?.address);
  }
  if (!repliesToNode) return undefined;
  if (sentAs === "asGuest") {
    return dead(
      "MasqueradeMissing",
      `${to} leave with the guest's own address, and are not answered`,
      link,
    );
  }
  return dead(
    "ForwardingRefused",
    `answers to ${to} do not come back through the node`,
    target?.address,
  );
}

function judgeAnsweringGateway(
  facts: PathFacts,
  observed: ObservedPath,
  macs: readonly string[],
): Verdict {
  const { target } = observed;
  const echo = findTrace(facts, "echo");
  const replied = `answered by ${macs.join(", ")}`;
  const fault = firstVerdict(() => judgeReplyAddress(facts, observed));
  if (fault !== undefined) return fault;
  if (echo === undefined || echo.replySeenAt.length > 0) {
    return judgeForwarding(observed) ?? ok(replied, target?.address);
  }
  const why = `${replied}; it answers ARP, not IP: it may refuse pings, or the address may belong to another host`;
  return judgePrefix(observed) ?? judgeForwarding(observed) ?? unknown(why, target?.address);
}

const NO_VISIBLE_PEER = "the pod NIC leads to nothing that can be seen on the node";

/** Returns the VLAN of the guest's frames on the node's bridge. Undefined if the bridge filters no VLANs or drops the frames. */
function findVlan({ links }: ObservedPath): number | undefined {
  return links.nodeBridge?.canFilterVlans === true ? links.nodePeer?.untaggedVlan : undefined;
}

function isOutwardLost(facts: PathFacts): boolean {
  return (findTrace(facts, "outward")?.replySeenAt.length ?? 0) === 0;
}

/** Whether the gateway did not answer. Other guests do not count, because they may be stopped. */
function isGatewayLost(facts: PathFacts): boolean {
  const isGateway = facts.observed?.target !== undefined && facts.observed.target.isGuest !== true;
  return isGateway && findTrace(facts, "outward") !== undefined && isOutwardLost(facts);
}

/** Judges a peer that is in no bridge. A routed peer is healthy: it has an address, or probes pass it. */
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
  // A program on the link can carry frames without a bridge or a route.
  const hasProgram = observed.filters?.some(({ link }) => link === peer.name) !== false;
  const isCutOff = observed.isPeerRouted === false && !hasProgram;
  return isGatewayLost(facts) || isCutOff
    ? dead("PeerOutOfBridge", why, peer.name)
    : unknown(`${why}; no gateway is known whose answer shows whether it is routed`, peer.name);
}

function judgePeerVlan(peer: PathLink, { links }: ObservedPath): Verdict | undefined {
  if (links.nodeBridge?.canFilterVlans !== true || peer.untaggedVlan !== undefined)
    return undefined;
  const why = `bridge ${links.nodeBridge.name} filters VLANs, and this port has none for untagged frames`;
  return dead("VlanMissing", why, peer.name);
}

function judgePortState({ isBlocked, name }: PathLink): Verdict | undefined {
  return isBlocked
    ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", name)
    : undefined;
}

/** Judges a peer that is not visible on the node. A veth is dead without a carrier or if the gateway is silent. */
function judgeHiddenPeer(facts: PathFacts): Verdict {
  const nic = facts.observed?.links.podNic;
  if (nic?.kind !== "veth" || (nic.carrier && !isGatewayLost(facts)))
    return unknown(NO_VISIBLE_PEER);
  const why = "the other end of the pod NIC is a veth that is not in the node's network namespace";
  return dead("PeerElsewhere", why, nic.name);
}

export function judgeNodePeer(facts: JudgedFacts): Verdict {
  const { observed } = facts;
  if (observed === undefined || observed.links.onNode === "unseen") return judgeHiddenPeer(facts);
  if (observed.links.onNode === "parent")
    return notApplicable("the pod NIC is part of a NIC of the node");
  const peer = observed.links.nodePeer;
  if (peer === undefined) return unknown(NO_VISIBLE_PEER);
  return (
    firstVerdict(
      () => (peer.up ? undefined : dead("PeerDown", "it is down", peer.name)),
      () => judgePeerMaster(facts, peer, observed),
      () => judgePortState(peer),
      () => judgePeerVlan(peer, observed),
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
  return dead(
    "VlanMissing",
    `the gateway is reached through VLAN ${String(vlan)}, which this bridge does not carry`,
    bridge.name,
  );
}

function judgeForwardingEntry(observed: ObservedPath): Verdict | undefined {
  const wrong = (observed.entries ?? []).find(({ at }) => at === "node");
  if (wrong === undefined) return undefined;
  const { mac, port } = wrong;
  const fix = `\`bridge fdb del ${mac} dev ${port} master\`; `;
  return withFix(
    fix,
    dead("EntryElsewhere", `a fixed forwarding entry leads ${mac} to ${port}`, port),
  );
}

function judgeNodeNeighbor(facts: PathFacts, observed: ObservedPath): Verdict | undefined {
  const mac = findExternalMac(facts);
  const wrong = (observed.neighbors ?? []).find((each) => each.at === "node" && each.mac !== mac);
  if (wrong === undefined || mac === undefined) return undefined;
  const { address, link } = wrong;
  const why = `the node has a fixed neighbor entry for ${address} with MAC ${wrong.mac}, which is at ${mac}`;
  return withFix(`\`ip neigh del ${address} dev ${link}\`; `, dead("NeighborWrong", why, link));
}

export function judgeNodeBridge(facts: JudgedFacts): Verdict {
  const { observed } = facts;
  if (observed === undefined || observed.links.onNode === "unseen") return unknown(NO_VISIBLE_PEER);
  const bridge = observed.links.nodeBridge;
  if (bridge === undefined) return notApplicable("the pod NIC is a port of no bridge on the node");
  return (
    firstVerdict(
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
  return firstVerdict(
    () => (uplink.up ? undefined : dead("UplinkDown", "it is down", name)),
    () => (uplink.carrier ? undefined : dead("NoCarrier", "it has no carrier", name)),
    () => judgePortState(uplink),
    () =>
      vlan === undefined || uplink.vlans.includes(vlan)
        ? undefined
        : dead("VlanMissing", `it does not take VLAN ${String(vlan)} of the guest`, name),
    () => judgeMtu(facts, uplink),
  );
}

function judgeMissingUplink(facts: PathFacts, observed: ObservedPath): Verdict {
  if (observed.links.nodeBridge === undefined)
    return notApplicable("frames are routed on the node");
  const why = "the bridge has no port but those of pods";
  if (observed.target === undefined) return unknown(`${why}: only guests of this node are reached`);
  return isOutwardLost(facts) && observed.target.at === "beyond"
    ? dead("UplinkMissing", `${why}, and ${observed.target.address} does not answer`)
    : notApplicable(`${why}, and needs none`);
}

export function judgeUplink(facts: JudgedFacts): Verdict {
  const { observed } = facts;
  if (observed === undefined || observed.links.onNode === "unseen") return unknown(NO_VISIBLE_PEER);
  const { uplinks } = observed.links;
  const [first] = uplinks;
  if (first === undefined) return judgeMissingUplink(facts, observed);
  const faults = uplinks.map((uplink) => judgeUplinkLink(uplink, facts, observed));
  const whole = uplinks.find((_uplink, at) => faults[at] === undefined);
  const fault = whole === undefined ? faults.find((each) => each !== undefined) : undefined;
  const name = (whole ?? first).name;
  return fault ?? judgeFrameLoss(facts, "uplink", name) ?? ok("it is up", name);
}

export function judgeGateway(facts: JudgedFacts): Verdict {
  const { observed } = facts;
  if (observed?.target === undefined) return unknown("no gateway and no neighbour of it is known");
  const { address } = observed.target;
  const trace = findTrace(facts, "outward");
  if (trace === undefined) return unknown("it was not asked", address);
  if (trace.replySeenAt.length > 0) {
    return (
      firstVerdict(
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
  if (observed.target.isMissing === true) {
    const why =
      "the node translates for this network, and its bridge has not the gateway's address";
    return dead("GatewayAddressMissing", why, address);
  }
  return findFrameLoss(trace, observed) === "gateway"
    ? dead("GatewaySilent", "requests reach the last observable hop, and no reply arrives", address)
    : unknown("no request has reached the last observable hop", address);
}

/** Judges large frames and unfinished checksums. A gateway may refuse pings, but not only these. */
function judgeSpecialFrameLoss(facts: JudgedFacts, address: string): Verdict | undefined {
  const lost = judgeFrameLoss(facts, "gateway", address);
  return lost?.reason === "FramesLost" || lost?.reason === "LossyLink" ? undefined : lost;
}
