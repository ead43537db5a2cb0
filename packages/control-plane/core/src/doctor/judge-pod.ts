// SPDX-License-Identifier: Apache-2.0
// Verdicts on the hops in the pod: tap, bridge, DHCP, translation and pod NIC.
import { isWithin, toNetworkAddress, parseIp } from "@patchbay/api/values";
import {
  findFrameLoss,
  isLossy,
  judgeFrameLoss,
  judgeMtu,
  type FactsWithFaults,
} from "./frame-loss.ts";
import type { ObservedPath, PathFacts, PathLink, WiringFault } from "./facts.ts";
import { describeDhcpRequests, hasNoDhcpServer, findTrace } from "./judge-guest.ts";
import type { DoctorReason } from "./reasons.ts";
import {
  notApplicable,
  dead,
  findFirstVerdict,
  ok,
  unknown,
  withFix,
  type Verdict,
} from "./report.ts";

const NOT_IN_POD_KERNEL = "its frames do not pass the kernel of the pod";

function findWiringFault(
  { wiringFaults: faults }: ObservedPath,
  link: string,
  part: WiringFault["what"],
): WiringFault | undefined {
  return faults.find((fault) => fault.link === link && fault.what === part);
}

function judgeWiring(
  observed: ObservedPath,
  link: PathLink,
  reasons: readonly (readonly [WiringFault["what"], DoctorReason])[],
): Verdict | undefined {
  for (const [part, reason] of reasons) {
    const fault = findWiringFault(observed, link.name, part);
    if (fault !== undefined) return dead(reason, `it lacks: ${fault.description}`, link.name);
  }
  return undefined;
}

function listRefusedAddresses({ guest, allowedAddresses }: PathFacts): readonly string[] {
  if (allowedAddresses === undefined) return [];
  const allowed = allowedAddresses.flatMap((text) => parseIp(text) ?? []).map(toNetworkAddress);
  return (guest?.addresses ?? []).filter((text) => {
    const address = parseIp(text);
    return address !== undefined && !allowed.some((prefix) => isWithin(address, prefix));
  });
}

function judgeSendGuard(
  facts: PathFacts,
  observed: ObservedPath,
  tap: PathLink,
): Verdict | undefined {
  const refused = listRefusedAddresses(facts);
  if (refused.length > 0) {
    const why = `the guest may not send from ${refused.join(", ")}`;
    return dead("GuardRefuses", why, tap.name);
  }
  const why = explainLostReplies(facts, observed) ?? explainRefusedAddress(observed);
  return why === undefined ? undefined : dead("GuardRefuses", why, tap.name);
}

function explainLostReplies(facts: PathFacts, observed: ObservedPath): string | undefined {
  const trace = findTrace(facts, "inward");
  if (facts.allowedAddresses === undefined || trace === undefined) return undefined;
  const isLost = trace.replySeenAt.length > 0 && findFrameLoss(trace, observed) === "tap";
  if (!isLost) return undefined;
  const why = "the guest's replies reach the tap but go no further";
  const recentRefusals = observed.refused
    .filter((refusal) => refusal.recentFrames > 0)
    .map(({ description }) => description);
  if (recentRefusals.length > 0) return `${why}: its guard refuses ${recentRefusals.join(", ")}`;
  return isLossy(observed) ? undefined : why;
}

function explainRefusedAddress({ refused }: ObservedPath): string | undefined {
  const recentRefusals = refused.filter(
    (refusal) => refusal.recentFrames > 0 && refusal.isOfIpv4Address,
  );
  if (recentRefusals.length === 0) return undefined;
  const counts = recentRefusals.map(
    (refusal) => `${String(refusal.recentFrames)} of ${refusal.description}`,
  );
  return `its send guard refused frames of the guest during this check: ${counts.join(", ")}`;
}

function describeEarlierRefusals({ refused }: ObservedPath): string {
  const counts = refused.map((refusal) => `${String(refusal.frames)} of ${refusal.description}`);
  return counts.length === 0
    ? ""
    : `; its send guard has refused frames before: ${counts.join(", ")}`;
}

/** Describes frames that network policies dropped. Policies drop them intentionally, so they are no fault. */
function describePolicyDrops({ policyDrops = [] }: ObservedPath): string {
  const counts = policyDrops.map(
    ({ description, frames, recentFrames }) =>
      `${String(frames)} frames ${description} (${String(recentFrames)} during this check)`,
  );
  return counts.length === 0 ? "" : `; network policies dropped ${counts.join(" and ")}`;
}

/** Judges lost frames beside the tap. While network policies drop frames there, a loss proves no fault. */
function judgeLossAtTap(
  facts: FactsWithFaults,
  hop: "tap" | "podBridge",
  { name }: PathLink,
): Verdict | undefined {
  const loss = judgeFrameLoss(facts, hop, name);
  const { observed } = facts;
  const isDropping = observed?.policyDrops?.some(({ recentFrames }) => recentFrames > 0) === true;
  if (loss === undefined || !isDropping) return loss;
  return { ...loss, state: "unknown", why: `${loss.why}${describePolicyDrops(observed)}` };
}

function judgeTapLink(tap: PathLink): Verdict | undefined {
  if (!tap.up) return dead("TapDown", "it is down", tap.name);
  if (!tap.carrier) return dead("TapNotOpen", "no process has it open", tap.name);
  return tap.isBlocked
    ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", tap.name)
    : undefined;
}

export function judgeTap(facts: FactsWithFaults): Verdict {
  const { observed, device } = facts;
  if (observed === undefined)
    return device === undefined ? unknown("nothing is there yet") : unknown(NOT_IN_POD_KERNEL);
  const { tap } = observed.links;
  if (tap === undefined) {
    return device === undefined
      ? unknown("it is not there yet")
      : dead("TapMissing", "there is no such link in the pod");
  }
  return (
    findFirstVerdict(
      () => judgeTapLink(tap),
      () => judgeWiring(observed, tap, [["master", "TapOutOfBridge"]]),
      () => judgeMtu(facts, tap),
      () => judgeWiring(observed, tap, [["rules", "RulesChanged"]]),
      () => judgeSendGuard(facts, observed, tap),
      () => judgeLossAtTap(facts, "tap", tap),
    ) ??
    ok(
      `it is open, and a port of its bridge${describeEarlierRefusals(observed)}${describePolicyDrops(observed)}`,
      tap.name,
    )
  );
}

function judgeBridgePorts({ wiringFaults: faults }: ObservedPath): Verdict | undefined {
  const entry = faults.find(({ what }) => what === "entry");
  if (entry !== undefined) return dead("EntryMissing", `it lacks: ${entry.description}`);
  const learning = faults.find(({ what }) => what === "learning");
  return learning === undefined
    ? undefined
    : dead("LearningOn", `a port learns MACs: ${learning.description}`, learning.link);
}

function judgeForwardingEntry(observed: ObservedPath): Verdict | undefined {
  const wrongEntry = observed.isBridged
    ? (observed.entries ?? []).find(({ at }) => at === "pod")
    : undefined;
  if (wrongEntry === undefined) return undefined;
  const why = `a fixed forwarding entry leads the gateway's MAC ${wrongEntry.mac} to ${wrongEntry.port}`;
  return dead("EntryElsewhere", why, wrongEntry.port, { MAC: wrongEntry.mac });
}

function judgePodNeighbor(
  observed: ObservedPath,
  link: PathLink,
  macs: readonly string[],
): Verdict | undefined {
  const wrongNeighbor = (observed.neighbors ?? []).find(
    (neighbor) =>
      neighbor.at === "pod" && neighbor.link === link.name && !macs.includes(neighbor.mac),
  );
  if (wrongNeighbor === undefined || macs.length === 0) return undefined;
  const { address, mac } = wrongNeighbor;
  const why = `the pod has a fixed neighbor entry for ${address} with MAC ${mac}, which is at ${macs.join(", ")}`;
  return dead("NeighborWrong", why, link.name, { ADDRESS: address });
}

export function judgePodBridge(facts: FactsWithFaults): Verdict {
  const { observed, binding } = facts;
  if (binding === "tap") return notApplicable("the network's plugin made the tap");
  if (observed === undefined) return unknown(NOT_IN_POD_KERNEL);
  const bridge = observed.links.podBridge;
  if (bridge === undefined) {
    return facts.device === undefined
      ? unknown("it is not there yet")
      : dead("BridgeMissing", "there is no such link in the pod");
  }
  return (
    findFirstVerdict(
      () => (bridge.up ? undefined : dead("BridgeDown", "it is down", bridge.name)),
      () => judgeBridgePorts(observed),
      () =>
        judgeWiring(observed, bridge, [
          ["mac", "BridgeChanged"],
          ["rules", "RulesChanged"],
          ["other", "BridgeChanged"],
        ]),
      () => judgeForwardingEntry(observed),
      () =>
        judgePodNeighbor(observed, bridge, facts.device === undefined ? [] : [facts.device.mac]),
      () => judgeLossAtTap(facts, "podBridge", bridge),
    ) ?? ok("it is up, and knows the guest behind its tap", bridge.name)
  );
}

function judgeNetworkDhcp(facts: PathFacts): Verdict {
  const dhcpTrace = findTrace(facts, "dhcp");
  if (dhcpTrace === undefined) return notApplicable("the pod gives this NIC no addresses");
  if (dhcpTrace.replySeenAt.length > 0) return ok(`offered by ${dhcpTrace.repliedFrom.join(", ")}`);
  const why = "no DHCP server on the network offers an address";
  const { guest } = facts;
  if (guest?.addresses === undefined) return unknown(why);
  return guest.addresses.length > 0
    ? ok(`${why}; the guest has its own`)
    : dead("NobodyOffers", why);
}

export function judgeAddresses(facts: PathFacts): Verdict {
  if (facts.serves === undefined) return judgeNetworkDhcp(facts);
  return hasNoDhcpServer(facts)
    ? dead("AddressServerDown", "the DHCP server of this NIC does not run")
    : ok(`the DHCP server of this NIC runs${describeDhcpRequests(facts)}`);
}

/** Returns an assigned address that the pod NIC no longer has. Undefined without masquerade, because `podAddresses` is then unset. */
function findMissingAddress({ podAddresses = [] }: PathFacts, nic: PathLink): string | undefined {
  const present = nic.addresses.map((text) => text.split("/")[0]);
  return podAddresses.find((address) => !present.includes(address));
}

/** Judges the pod's routes. Undefined while a link is down or an address is missing, because other hops report these faults. */
function judgePodRoutes(
  facts: PathFacts,
  { links, routeFaults }: ObservedPath,
): Verdict | undefined {
  const { podBridge, podNic } = links;
  const fault = routeFaults?.find(({ at }) => at === "pod");
  const isUp = podBridge?.up === true && podNic?.up === true && podNic.carrier;
  if (fault === undefined || !isUp || findMissingAddress(facts, podNic) !== undefined) {
    return undefined;
  }
  const why = `the pod does not route the guest's packets: \`${fault.command}\`: ${fault.problem}`;
  return dead("RouteMissing", why);
}

type Through = NonNullable<ObservedPath["through"]>;

/**
 * Returns the trace of the probe `through` if the probe reached the pod NIC and no answer left this NIC, although the guest answers
 * neighbor requests. Returns undefined if another fault may explain the loss.
 */
function findThrough(facts: PathFacts, observed: ObservedPath): Through | undefined {
  const { through, neighbors = [] } = observed;
  const doesGuestReply = findTrace(facts, "inward")?.replySeenAt.includes("podBridge") === true;
  const hasOtherCause = isLossy(observed) || neighbors.some(({ at }) => at === "pod");
  const isLost =
    through?.probeSeenAt.includes("podNic") === true && !through.replySeenAt.includes("podNic");
  return isLost && doesGuestReply && !hasOtherCause ? through : undefined;
}

/**
 * Judges the pod's forwarding by a TCP request that the doctor sends to the pod. The request must reach the tap, and the answer must reach
 * the pod NIC. A firewall may intentionally refuse new connections, so a lost request is a proven fault only if a rule drops all packets.
 */
function judgeThrough(facts: PathFacts, observed: ObservedPath): Verdict | undefined {
  const through = findThrough(facts, observed);
  if (through === undefined) return undefined;
  const { probeSeenAt, replySeenAt } = through;
  const { packetFilters = [] } = observed;
  const filter = packetFilters.find(({ dropsAll }) => dropsAll) ?? packetFilters[0];
  const command = filter === undefined ? "nft list ruleset" : filter.command;
  const advice = `\`${command}\` in the pod's network namespace shows what may drop them; else `;
  if (replySeenAt.includes("podBridge")) {
    const why = "the guest's packets reach the pod's bridge, and the pod does not forward them";
    return withFix(advice, dead("FramesLost", why));
  }
  if (probeSeenAt.includes("tap") || probeSeenAt.includes("podBridge")) return undefined;
  const why = "packets from the network reach the pod NIC, and the pod does not forward them";
  if (filter?.dropsAll === true) return withFix(advice, dead("FramesLost", why));
  return unknown(`${why}: a firewall in the pod may refuse new connections`);
}

export function judgeTranslation(facts: PathFacts): Verdict {
  const { observed, binding } = facts;
  if (binding !== "masquerade") return notApplicable("the guest is not behind the pod's addresses");
  if (observed === undefined) return unknown("nothing is there yet");
  const fault = observed.wiringFaults.find(({ link, what }) => what === "rules" && link === "");
  if (fault !== undefined) return dead("RulesChanged", `it lacks: ${fault.description}`);
  return (
    findFirstVerdict(
      () => judgePodRoutes(facts, observed),
      () => judgeThrough(facts, observed),
    ) ?? ok("its rules are whole")
  );
}

function judgeNicLink(
  facts: PathFacts,
  observed: ObservedPath,
  nic: PathLink,
): Verdict | undefined {
  if (!nic.up) return dead("NicDown", "it is down", nic.name);
  if (nic.carrier) return undefined;
  const { onNode, nodePeer } = observed.links;
  // The verdict on `nodePeer` reports the cause, so this verdict is unknown.
  if (onNode === "peer" && nodePeer?.up === false) {
    return unknown("it has no carrier, since its other end is down", nic.name);
  }
  if (onNode === "unseen" && nic.kind === "veth") {
    return unknown(
      "it has no carrier, since its other end is not on the node or is down",
      nic.name,
    );
  }
  return dead("NoCarrier", "it has no carrier", nic.name);
}

function judgeNicAddress(facts: PathFacts, nic: PathLink): Verdict | undefined {
  const missing = findMissingAddress(facts, nic);
  if (missing === undefined) return undefined;
  const why = `it lacks the address ${missing}, which the network assigned`;
  return dead("NicAddressMissing", why, nic.name, { ADDRESS: missing });
}

export function judgePodNic(facts: FactsWithFaults): Verdict {
  const { observed, blockedReason } = facts;
  if (observed === undefined) return unknown(blockedReason ?? NOT_IN_POD_KERNEL);
  const nic = observed.links.podNic;
  if (nic === undefined) {
    return dead("NicMissing", blockedReason ?? "there is no such link in the pod");
  }
  return (
    findFirstVerdict(
      () => judgeNicLink(facts, observed, nic),
      () =>
        judgeWiring(observed, nic, [
          ["mac", "NicWrongMac"],
          ["master", "NicOutOfBridge"],
        ]),
      () =>
        nic.isBlocked
          ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", nic.name)
          : undefined,
      () => judgeMtu(facts, nic),
      () => judgeNicAddress(facts, nic),
      () => judgePodNeighbor(observed, nic, findTrace(facts, "outward")?.repliedFrom ?? []),
      () => judgeFrameLoss(facts, "podNic", nic.name),
    ) ?? ok("it is up", nic.name)
  );
}
