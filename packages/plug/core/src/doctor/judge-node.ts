// SPDX-License-Identifier: Apache-2.0
// The hops that are on the node, and who is beyond.
import { isIpv6LinkLocal } from "../addresses/lease.ts";
import { frameLostAt } from "./blame.ts";
import type { SeenWay, WayFacts, WayLink } from "./facts.ts";
import { answering, claimed } from "./judge-gateway.ts";
import { lossyHop, lostFrames, outsideMac, smallerMtu, type JudgedFacts } from "./judge-frames.ts";
import { traceOf } from "./judge-guest.ts";
import { absent, dead, firstOf, ok, unknown, withFix, type Verdict } from "./verdict.ts";

const UNSEEN = "the pod NIC leads to nothing that can be seen on the node";

/** VLAN of the guest's frames on the node's bridge; undefined: it has none, or they are dropped. */
function vlanOf({ links }: SeenWay): number | undefined {
  return links.nodeBridge?.filtersVlans === true ? links.nodePeer?.untaggedVlan : undefined;
}

function wayLost(facts: WayFacts): boolean {
  return (traceOf(facts, "outward")?.answered.length ?? 0) === 0;
}

/** Only a gateway's silence proves a loss: another guest may be stopped. */
function isGatewayLost(facts: WayFacts): boolean {
  const isGateway = facts.seen?.target !== undefined && facts.seen.target.isGuest !== true;
  return isGateway && traceOf(facts, "outward") !== undefined && wayLost(facts);
}

/** A veth that is no port may be routed: then it has an address, or frames pass all the same. */
function loose(facts: WayFacts, peer: WayLink, seen: SeenWay): Verdict | undefined {
  const hasAddress = peer.addresses.some((address) => !isIpv6LinkLocal(address));
  if (peer.master !== undefined || hasAddress || !wayLost(facts) || !seen.isBridged) {
    return undefined;
  }
  const why = "it is a port of no bridge";
  // A program on the link can carry frames without a bridge or a route.
  const hasProgram = seen.filters?.some(({ link }) => link === peer.name) !== false;
  const isCutOff = seen.isPeerRouted === false && !hasProgram;
  return isGatewayLost(facts) || isCutOff
    ? dead("PeerOutOfBridge", why, peer.name)
    : unknown(`${why}; no gateway is known whose answer shows whether it is routed`, peer.name);
}

function untagged(peer: WayLink, { links }: SeenWay): Verdict | undefined {
  if (links.nodeBridge?.filtersVlans !== true || peer.untaggedVlan !== undefined) return undefined;
  const why = `bridge ${links.nodeBridge.name} filters VLANs, and this port has none for untagged frames`;
  return dead("VlanMissing", why, peer.name);
}

function blocked({ isBlocked, name }: WayLink): Verdict | undefined {
  return isBlocked
    ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", name)
    : undefined;
}

/** A veth has its other end somewhere: where the gateway is silent too, it is in no place that leads to the network. */
function elsewhere(facts: WayFacts): Verdict {
  const nic = facts.seen?.links.podNic;
  if (nic?.kind !== "veth" || (nic.carrier && !isGatewayLost(facts))) return unknown(UNSEEN);
  const why = "the other end of the pod NIC is a veth that is not in the node's network namespace";
  return dead("PeerElsewhere", why, nic.name);
}

/** The other end of the pod NIC. */
export function judgeNodePeer(facts: JudgedFacts): Verdict {
  const { seen } = facts;
  if (seen === undefined || seen.links.onNode === "unseen") return elsewhere(facts);
  if (seen.links.onNode === "parent") return absent("the pod NIC is part of a NIC of the node");
  const peer = seen.links.nodePeer;
  if (peer === undefined) return unknown(UNSEEN);
  return (
    firstOf(
      () => (peer.up ? undefined : dead("PeerDown", "it is down", peer.name)),
      () => loose(facts, peer, seen),
      () => blocked(peer),
      () => untagged(peer, seen),
      () => smallerMtu(facts, peer),
      () => lostFrames(facts, "nodePeer", peer.name),
    ) ?? ok(peer.master === undefined ? "it is up" : `it is a port of ${peer.master}`, peer.name)
  );
}

function bridgeVlan(seen: SeenWay, bridge: WayLink): Verdict | undefined {
  const vlan = vlanOf(seen);
  if (vlan === undefined || seen.target?.at !== "bridge" || bridge.vlans.includes(vlan)) {
    return undefined;
  }
  return dead(
    "VlanMissing",
    `the gateway is reached through VLAN ${String(vlan)}, which this bridge does not carry`,
    bridge.name,
  );
}

/** A forwarding entry that does not age, and that leads a MAC of this path to another port. */
function entryElsewhere(seen: SeenWay): Verdict | undefined {
  const wrong = (seen.entries ?? []).find(({ at }) => at === "node");
  if (wrong === undefined) return undefined;
  const { mac, port } = wrong;
  const fix = `\`bridge fdb del ${mac} dev ${port} master\`; `;
  return withFix(
    fix,
    dead("EntryElsewhere", `a fixed forwarding entry leads ${mac} to ${port}`, port),
  );
}

/** A neighbor entry of the node that does not age, and that has another MAC for the guest's address. */
function wrongNeighbor(facts: WayFacts, seen: SeenWay): Verdict | undefined {
  const mac = outsideMac(facts);
  const wrong = (seen.neighbors ?? []).find((each) => each.at === "node" && each.mac !== mac);
  if (wrong === undefined || mac === undefined) return undefined;
  const { address, link } = wrong;
  const why = `the node has a fixed neighbor entry for ${address} with MAC ${wrong.mac}, which is at ${mac}`;
  return withFix(`\`ip neigh del ${address} dev ${link}\`; `, dead("NeighborWrong", why, link));
}

/** The bridge on the node. */
export function judgeNodeBridge(facts: JudgedFacts): Verdict {
  const { seen } = facts;
  if (seen === undefined || seen.links.onNode === "unseen") return unknown(UNSEEN);
  const bridge = seen.links.nodeBridge;
  if (bridge === undefined) return absent("the pod NIC is a port of no bridge on the node");
  return (
    firstOf(
      () => (bridge.up ? undefined : dead("NodeBridgeDown", "it is down", bridge.name)),
      () => bridgeVlan(seen, bridge),
      () => entryElsewhere(seen),
      () => wrongNeighbor(facts, seen),
      () => lostFrames(facts, "nodeBridge", bridge.name),
    ) ?? ok("it is up", bridge.name)
  );
}

function uplinkFault(uplink: WayLink, facts: WayFacts, seen: SeenWay): Verdict | undefined {
  const vlan = vlanOf(seen);
  const { name } = uplink;
  return firstOf(
    () => (uplink.up ? undefined : dead("UplinkDown", "it is down", name)),
    () => (uplink.carrier ? undefined : dead("NoCarrier", "it has no carrier", name)),
    () => blocked(uplink),
    () =>
      vlan === undefined || uplink.vlans.includes(vlan)
        ? undefined
        : dead("VlanMissing", `it does not take VLAN ${String(vlan)} of the guest`, name),
    () => smallerMtu(facts, uplink),
  );
}

function noUplink(facts: WayFacts, seen: SeenWay): Verdict {
  if (seen.links.nodeBridge === undefined) return absent("frames are routed on the node");
  const why = "the bridge has no port but those of pods";
  if (seen.target === undefined) return unknown(`${why}: only guests of this node are reached`);
  return wayLost(facts) && seen.target.at === "beyond"
    ? dead("UplinkMissing", `${why}, and ${seen.target.address} does not answer`)
    : absent(`${why}, and needs none`);
}

/** What leads out of the node. */
export function judgeUplink(facts: JudgedFacts): Verdict {
  const { seen } = facts;
  if (seen === undefined || seen.links.onNode === "unseen") return unknown(UNSEEN);
  const { uplinks } = seen.links;
  const [first] = uplinks;
  if (first === undefined) return noUplink(facts, seen);
  const faults = uplinks.map((uplink) => uplinkFault(uplink, facts, seen));
  const whole = uplinks.find((_uplink, at) => faults[at] === undefined);
  const fault = whole === undefined ? faults.find((each) => each !== undefined) : undefined;
  const name = (whole ?? first).name;
  return fault ?? lostFrames(facts, "uplink", name) ?? ok("it is up", name);
}

/** Who answers on the network. */
export function judgeGateway(facts: JudgedFacts): Verdict {
  const { seen } = facts;
  if (seen?.target === undefined) return unknown("no gateway and no neighbour of it is known");
  const { address } = seen.target;
  const trace = traceOf(facts, "outward");
  if (trace === undefined) return unknown("it was not asked", address);
  if (trace.answered.length > 0) {
    return (
      firstOf(
        () => claimed(facts, seen, trace.by),
        () => lostOthers(facts, address),
        () => (seen.target?.isGuest === true ? undefined : lossyHop(facts, "gateway", address)),
      ) ?? answering(facts, seen, trace.by)
    );
  }
  if (seen.target.isGuest === true) {
    const why = "another guest does not answer at this address; no gateway is known to probe";
    return unknown(why, address);
  }
  if (seen.target.isMissing === true) {
    const why =
      "the node translates for this network, and its bridge has not the gateway's address";
    return dead("GatewayAddressMissing", why, address);
  }
  return frameLostAt(trace, seen) === "gateway"
    ? dead(
        "GatewaySilent",
        "questions come to the end of what can be seen, and nobody answers",
        address,
      )
    : unknown("no question has come so far", address);
}

/** That a gateway answers no ping is its own matter; that it answers small or finished ones alone is not. */
function lostOthers(facts: JudgedFacts, address: string): Verdict | undefined {
  const lost = lostFrames(facts, "gateway", address);
  return lost?.reason === "FramesLost" || lost?.reason === "LossyLink" ? undefined : lost;
}
