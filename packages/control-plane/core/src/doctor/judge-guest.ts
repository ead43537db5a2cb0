// SPDX-License-Identifier: Apache-2.0
import { findFrameLoss, findProbeLoss, isLossy, judgePartialLoss } from "./frame-loss.ts";
import type { FrameTrace, ProbeName, PathFacts } from "./facts.ts";
import {
  dead,
  findFirstVerdict,
  type FixValues,
  ok,
  uncertain,
  unknown,
  type Verdict,
} from "./report.ts";

export function findTrace({ observed }: PathFacts, probe: ProbeName): FrameTrace | undefined {
  return observed?.traces.find((trace) => trace.probe === probe);
}

export function hasNoDhcpServer(facts: PathFacts): boolean {
  const dhcpTrace = findTrace(facts, "dhcp");
  return facts.serves === false || (dhcpTrace !== undefined && dhcpTrace.replySeenAt.length === 0);
}

/** Returns a clause with the number of the guest's DHCP requests. Empty if the pod assigns no addresses to this NIC. */
export function describeDhcpRequests({ observed }: PathFacts): string {
  const requestCount = observed?.dhcpRequests;
  if (requestCount === undefined) return "";
  if (requestCount === 0) return "; the guest has sent no DHCP request since this NIC was wired";
  return `; the guest has sent ${String(requestCount)} DHCP request${requestCount === 1 ? "" : "s"}`;
}

function judgeMac({ device, guest, ...facts }: PathFacts): Verdict | undefined {
  if (device === undefined) return undefined;
  const text = `the device has MAC ${device.mac}`;
  if (guest !== undefined && guest.macs.length > 0 && !guest.macs.includes(device.mac)) {
    return dead("WrongMacInGuest", `${text}; the guest agent reports ${guest.macs.join(", ")}`);
  }
  const foreignMacs = (findTrace(facts, "inward")?.repliedFrom ?? []).filter(
    (mac) => mac !== device.mac,
  );
  if (foreignMacs.length === 0) return undefined;
  return dead("WrongMacInGuest", `${text}; the guest answers from ${foreignMacs.join(", ")}`);
}

function judgeDuplicateAddress(facts: PathFacts): Verdict | undefined {
  const vmMacs = [...(facts.vmMacs ?? []), ...(facts.guest?.macs ?? []), facts.device?.mac];
  const foreignMacs = (findTrace(facts, "own")?.repliedFrom ?? []).filter(
    (mac) => !vmMacs.includes(mac),
  );
  if (foreignMacs.length === 0) return undefined;
  const why = `${foreignMacs.join(", ")} has the guest's address too`;
  return dead("DuplicateAddress", why, undefined, { MAC: foreignMacs[0] ?? "" });
}

function isSilent({ observed, device }: PathFacts, trace: FrameTrace): boolean {
  const couldAnswer = device?.linkUp === true && observed?.links.tap?.carrier === true;
  return observed !== undefined && couldAnswer && findFrameLoss(trace, observed) === "guest";
}

function judgeState(facts: PathFacts, why: string): Verdict | undefined {
  const { isBooting, isPaused, observed } = facts;
  if (isPaused === true) return uncertain("GuestPaused", `${why}; it is paused`);
  if (isBooting === true) return uncertain("GuestBooting", `${why}; it has just started`);
  return observed?.dhcpRequests === 0
    ? uncertain("DhcpNotRequested", `${why}${describeDhcpRequests(facts)}`)
    : undefined;
}

/** Judges a guest that does not answer ARP and reports no address. Undefined if it sent DHCP requests, which `judgeAddress` reports. */
function judgeUnaddressed(facts: PathFacts): Verdict | undefined {
  const { guest } = facts;
  if (hasNoDhcpServer(facts)) {
    return unknown("it does not answer ARP, and no server gave it an address");
  }
  const why = "it does not answer ARP for the address that the network assigned";
  const verdict = judgeState(facts, why);
  if (verdict !== undefined) return verdict;
  if (guest === undefined) {
    const cause = "no guest agent answers, and it may use an address of its own";
    return uncertain("GuestAgentMissing", `${why}; ${cause}${describeDhcpRequests(facts)}`);
  }
  if (facts.observed?.dhcpRequests !== undefined && guest.addresses !== undefined) return undefined;
  return unknown(`${why}; its agent reports no address at this NIC`);
}

function judgeSilence(facts: PathFacts): Verdict | undefined {
  const trace = findTrace(facts, "inward");
  if (trace === undefined || !isSilent(facts, trace)) return undefined;
  if (facts.isPaused === true) {
    return uncertain("GuestPaused", "it is paused, so it answers nothing");
  }
  if ((facts.guest?.addresses?.length ?? 0) === 0) return judgeUnaddressed(facts);
  return dead("GuestSilent", "frames leave the tap to the guest, and it answers none of them");
}

function listGatewayMacs(facts: PathFacts): readonly string[] {
  const { observed } = facts;
  const bridgeMac = observed?.links.podBridge?.mac;
  if (observed?.isBridged === true) return findTrace(facts, "outward")?.repliedFrom ?? [];
  return bridgeMac === undefined ? [] : [bridgeMac];
}

function judgeIp(facts: PathFacts): Verdict | undefined {
  const { observed } = facts;
  const traces = [findTrace(facts, "ping"), findTrace(facts, "connect")].filter(
    (candidate) => candidate !== undefined,
  );
  const isSilentByIp =
    traces.length === 2 && traces.every(({ replySeenAt }) => replySeenAt.length === 0);
  if (observed === undefined || !isSilentByIp || isLossy(observed)) return undefined;
  // With masquerade, the pod's bridge is the guest's gateway. While the bridge has a fault, the guest cannot answer.
  const bridge = observed.links.podBridge?.name;
  if (!observed.isBridged && observed.wiringFaults.some(({ link }) => link === bridge)) {
    return undefined;
  }
  // Without an ARP reply from its gateway, a guest with bridge binding cannot send IP packets, so a missing IP answer proves no fault.
  const doesGatewayReply = findTrace(facts, "outward")?.replySeenAt.includes("podNic") === true;
  if (observed.isBridged && !doesGatewayReply) return undefined;
  if (traces.some((trace) => findProbeLoss(trace, observed) !== undefined)) return undefined;
  const why = "it answers ARP but not IP: it replies neither to pings nor to connections";
  if (facts.isPaused === true) return uncertain("GuestPaused", `${why}; it is paused`);
  if (facts.isWindows === true)
    return unknown(`${why}; the firewall of Windows refuses both by default`);
  return dead("GuestRefusesIp", why);
}

function findGuestGateway({ observed }: PathFacts): Pick<FixValues, "ADDRESS"> {
  const [bridgeAddress] = observed?.links.podBridge?.addresses ?? [];
  const address =
    observed?.isBridged === false ? bridgeAddress?.split("/")[0] : observed?.target?.address;
  return address === undefined ? {} : { ADDRESS: address };
}

function judgeNeighbor(facts: PathFacts): Verdict | undefined {
  const trace = [findTrace(facts, "ping"), findTrace(facts, "connect")].find(
    (candidate) => candidate !== undefined && candidate.repliedTo.length > 0,
  );
  const gatewayMacs = listGatewayMacs(facts);
  if (trace === undefined || gatewayMacs.length === 0) return undefined;
  if (trace.repliedTo.some((mac) => gatewayMacs.includes(mac))) return undefined;
  const why = `it sends frames for its gateway to ${trace.repliedTo.join(", ")}, and the gateway answers from ${gatewayMacs.join(", ")}`;
  return dead("NeighborWrong", why, undefined, findGuestGateway(facts));
}

function judgeAddress(facts: PathFacts): Verdict | undefined {
  const { guest } = facts;
  if (guest?.addresses?.length !== 0) return undefined;
  const why = `the guest agent reports no address on this NIC${describeDhcpRequests(facts)}`;
  if (hasNoDhcpServer(facts)) return unknown(why);
  const state = judgeState(facts, "the guest agent reports no address on this NIC");
  return state ?? dead("NoAddressInGuest", why);
}

function judgeDefaultRoute(facts: PathFacts): Verdict | undefined {
  if (!facts.offersDefaultRoute || facts.guest?.hasDefaultRoute !== false) return undefined;
  const why = "the guest agent reports no IPv4 default route";
  return dead("NoDefaultRoute", why, undefined, findGuestGateway(facts));
}

/** Returns the host to which the guest sends packets for other networks. Undefined if this host is the gateway or unknown. */
function findOtherRouter(facts: PathFacts, gateway: string | undefined): string | undefined {
  const { trace, requested } = facts.observed?.guestRoute ?? {};
  if (trace?.replySeenAt.length === 0) {
    const address = requested?.find((candidate) => candidate !== gateway);
    return address === undefined ? undefined : `${address}, which does not answer`;
  }
  const gatewayMacs = listGatewayMacs(facts);
  const macs = trace?.repliedTo ?? [];
  const isOther = gatewayMacs.length > 0 && !macs.some((mac) => gatewayMacs.includes(mac));
  return isOther && macs.length > 0 ? macs.join(", ") : undefined;
}

/**
 * Reports a guest that sends packets for other networks to a host other than its gateway. The finding is uncertain: the network may have
 * several gateways, and the guest may request a MAC for another reason.
 */
function judgeDefaultGateway(facts: PathFacts): Verdict | undefined {
  const doesReply = findTrace(facts, "ping")?.replySeenAt.includes("tap") === true;
  // Ignores Windows guests, because the Windows firewall may refuse only the pings from other networks.
  if (!facts.offersDefaultRoute || !doesReply || facts.isWindows === true) return undefined;
  const values = findGuestGateway(facts);
  const router = findOtherRouter(facts, values.ADDRESS);
  if (router === undefined) return undefined;
  const why = `it seems to send packets for other networks to ${router}; its gateway is ${values.ADDRESS ?? "unknown"}`;
  return uncertain("RouteElsewhere", why, values);
}

function judgeReplies(facts: PathFacts): Verdict {
  if (findTrace(facts, "inward")?.replySeenAt.includes("tap") === true) {
    return ok("it answers at its tap");
  }
  const { guest } = facts;
  if ((guest?.addresses?.length ?? 0) > 0) {
    return ok(`its agent reports ${guest?.addresses?.join(", ") ?? ""}`);
  }
  return unknown("its address is unknown, and no guest agent reports one");
}

export function judgeGuest(facts: PathFacts): Verdict {
  if (facts.device === undefined) return unknown("it has no such NIC yet");
  return (
    findFirstVerdict(
      () => judgeMac(facts),
      // A duplicate address is checked first, because it may be the reason why the guest does not answer.
      () => judgeDuplicateAddress(facts),
      () => judgeSilence(facts),
      () => judgeAddress(facts),
      () => judgeDefaultRoute(facts),
      () => judgeNeighbor(facts),
      () => judgeIp(facts),
      () => judgePartialLoss(facts, "guest"),
      () => judgeDefaultGateway(facts),
    ) ?? judgeReplies(facts)
  );
}

export function judgeDevice({ device, blockedReason, binding }: PathFacts): Verdict {
  if (device === undefined) {
    if (binding === "hook") return unknown("a hook makes this NIC; libvirt need not know of it");
    return dead("NotPlugged", blockedReason ?? "libvirt has no device for this interface");
  }
  return device.linkUp
    ? ok("its link is up", device.mac)
    : dead("DeviceLinkDown", "libvirt has set its link down", device.mac);
}
