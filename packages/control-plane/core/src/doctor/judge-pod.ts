// SPDX-License-Identifier: Apache-2.0
// Verdicts on the hops in the pod: tap, bridge, DHCP, translation and pod NIC.
import { isWithin, toNetworkAddress, parseIp } from "@patchbay/api";
import { findFrameLoss, judgeFrameLoss, judgeMtu, type JudgedFacts } from "./frame-loss.ts";
import type { ObservedPath, PathFacts, PathLink, WiringFault } from "./facts.ts";
import { describeDhcpRequests, hasNoDhcpServer, findTrace } from "./judge-guest.ts";
import type { DoctorReason } from "./reasons.ts";
import { notApplicable, dead, firstVerdict, ok, unknown, withFix, type Verdict } from "./report.ts";

const NOT_IN_POD_KERNEL = "its frames do not pass the kernel of the pod";

function findWiringFault(
  { lacks }: ObservedPath,
  link: string,
  what: WiringFault["what"],
): WiringFault | undefined {
  return lacks.find((lack) => lack.link === link && lack.what === what);
}

function judgeWiring(
  seen: ObservedPath,
  link: PathLink,
  reasons: readonly (readonly [WiringFault["what"], DoctorReason])[],
): Verdict | undefined {
  for (const [what, reason] of reasons) {
    const lack = findWiringFault(seen, link.name, what);
    if (lack !== undefined) return dead(reason, `it lacks: ${lack.words}`, link.name);
  }
  return undefined;
}

function listRefusedAddresses({ guest, mayClaim }: PathFacts): readonly string[] {
  if (mayClaim === undefined) return [];
  const allowed = mayClaim.flatMap((text) => parseIp(text) ?? []).map(toNetworkAddress);
  return (guest?.addresses ?? []).filter((text) => {
    const own = parseIp(text);
    return own !== undefined && !allowed.some((prefix) => isWithin(own, prefix));
  });
}

function judgeSendGuard(facts: PathFacts, seen: ObservedPath, tap: PathLink): Verdict | undefined {
  const refused = listRefusedAddresses(facts);
  if (refused.length > 0) {
    const why = `the guest may not send from ${refused.join(", ")}`;
    return dead("GuardRefuses", why, tap.name);
  }
  const why = explainLostReplies(facts, seen) ?? explainRefusedAddress(seen);
  return why === undefined ? undefined : dead("GuardRefuses", why, tap.name);
}

function explainLostReplies(facts: PathFacts, seen: ObservedPath): string | undefined {
  const trace = findTrace(facts, "inward");
  if (facts.mayClaim === undefined || trace === undefined) return undefined;
  const isLost = trace.answered.length > 0 && findFrameLoss(trace, seen) === "tap";
  if (!isLost) return undefined;
  const why = "what the guest answers comes to the tap and not further";
  const lately = seen.refused.filter((each) => each.lately > 0).map(({ what }) => what);
  return lately.length === 0 ? why : `${why}: its guard refuses ${lately.join(", ")}`;
}

function explainRefusedAddress({ refused }: ObservedPath): string | undefined {
  const lately = refused.filter((each) => each.lately > 0 && each.isOfIpv4Address);
  if (lately.length === 0) return undefined;
  const said = lately.map((each) => `${String(each.lately)} of ${each.what}`);
  return `its send guard refused frames of the guest during this check: ${said.join(", ")}`;
}

function describeEarlierRefusals({ refused }: ObservedPath): string {
  const said = refused.map(({ what, frames }) => `${String(frames)} of ${what}`);
  return said.length === 0 ? "" : `; its send guard has refused frames before: ${said.join(", ")}`;
}

function judgeTapLink(tap: PathLink): Verdict | undefined {
  if (!tap.up) return dead("TapDown", "it is down", tap.name);
  if (!tap.carrier) return dead("TapNotOpen", "nobody has it open", tap.name);
  return tap.isBlocked
    ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", tap.name)
    : undefined;
}

export function judgeTap(facts: JudgedFacts): Verdict {
  const { seen, device } = facts;
  if (seen === undefined)
    return device === undefined ? unknown("nothing is there yet") : unknown(NOT_IN_POD_KERNEL);
  const { tap } = seen.links;
  if (tap === undefined) {
    return device === undefined
      ? unknown("it is not there yet")
      : dead("TapMissing", "there is no such link in the pod");
  }
  return (
    firstVerdict(
      () => judgeTapLink(tap),
      () => judgeWiring(seen, tap, [["master", "TapOutOfBridge"]]),
      () => judgeMtu(facts, tap),
      () => judgeWiring(seen, tap, [["rules", "RulesChanged"]]),
      () => judgeSendGuard(facts, seen, tap),
      () => judgeFrameLoss(facts, "tap", tap.name),
    ) ?? ok(`it is open, and a port of its bridge${describeEarlierRefusals(seen)}`, tap.name)
  );
}

function judgeBridgePorts({ lacks }: ObservedPath): Verdict | undefined {
  const entry = lacks.find(({ what }) => what === "entry");
  if (entry !== undefined) return dead("EntryMissing", `it lacks: ${entry.words}`);
  const learning = lacks.find(({ what }) => what === "learning");
  return learning === undefined
    ? undefined
    : dead("LearningOn", `a port learns MACs: ${learning.words}`, learning.link);
}

function judgeForwardingEntry(seen: ObservedPath): Verdict | undefined {
  const wrong = seen.isBridged ? (seen.entries ?? []).find(({ at }) => at === "pod") : undefined;
  if (wrong === undefined) return undefined;
  const why = `a fixed forwarding entry leads the gateway's MAC ${wrong.mac} to ${wrong.port}`;
  return dead("EntryElsewhere", why, wrong.port);
}

function judgePodNeighbor(
  seen: ObservedPath,
  link: PathLink,
  macs: readonly string[],
): Verdict | undefined {
  const wrong = (seen.neighbors ?? []).find(
    (each) => each.at === "pod" && each.link === link.name && !macs.includes(each.mac),
  );
  if (wrong === undefined || macs.length === 0) return undefined;
  const { address, mac } = wrong;
  const why = `the pod has a fixed neighbor entry for ${address} with MAC ${mac}, which is at ${macs.join(", ")}`;
  const fix = `\`ip neigh del ${address} dev ${link.name}\` in the pod's network namespace; `;
  return withFix(fix, dead("NeighborWrong", why, link.name));
}

export function judgePodBridge(facts: JudgedFacts): Verdict {
  const { seen, binding } = facts;
  if (binding === "tap") return notApplicable("the network's plugin made the tap");
  if (seen === undefined) return unknown(NOT_IN_POD_KERNEL);
  const bridge = seen.links.podBridge;
  if (bridge === undefined) {
    return facts.device === undefined
      ? unknown("it is not there yet")
      : dead("BridgeMissing", "there is no such link in the pod");
  }
  return (
    firstVerdict(
      () => (bridge.up ? undefined : dead("BridgeDown", "it is down", bridge.name)),
      () => judgeBridgePorts(seen),
      () =>
        judgeWiring(seen, bridge, [
          ["mac", "BridgeChanged"],
          ["rules", "RulesChanged"],
          ["other", "BridgeChanged"],
        ]),
      () => judgeForwardingEntry(seen),
      () => judgePodNeighbor(seen, bridge, facts.device === undefined ? [] : [facts.device.mac]),
      () => judgeFrameLoss(facts, "podBridge", bridge.name),
    ) ?? ok("it is up, and knows the guest behind its tap", bridge.name)
  );
}

function judgeNetworkDhcp(facts: PathFacts): Verdict {
  const asked = findTrace(facts, "dhcp");
  if (asked === undefined) return notApplicable("the pod gives this NIC no addresses");
  if (asked.answered.length > 0) return ok(`offered by ${asked.by.join(", ")}`);
  const why = "nobody on the network offers an address by DHCP";
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

export function judgeTranslation({ seen, binding }: PathFacts): Verdict {
  if (binding !== "masquerade") return notApplicable("the guest is not behind the pod's addresses");
  if (seen === undefined) return unknown("nothing is there yet");
  const lack = seen.lacks.find(({ link, what }) => what === "rules" && link === "");
  return lack === undefined
    ? ok("its rules are whole")
    : dead("RulesChanged", `it lacks: ${lack.words}`);
}

function judgeNicLink(facts: PathFacts, seen: ObservedPath, nic: PathLink): Verdict | undefined {
  if (!nic.up) return dead("NicDown", "it is down", nic.name);
  if (nic.carrier) return undefined;
  const { onNode, nodePeer } = seen.links;
  // The verdict on the peer reports the cause.
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

export function judgePodNic(facts: JudgedFacts): Verdict {
  const { seen, blockedReason } = facts;
  if (seen === undefined) return unknown(blockedReason ?? NOT_IN_POD_KERNEL);
  const nic = seen.links.podNic;
  if (nic === undefined) {
    return dead("NicMissing", blockedReason ?? "there is no such link in the pod");
  }
  return (
    firstVerdict(
      () => judgeNicLink(facts, seen, nic),
      () =>
        judgeWiring(seen, nic, [
          ["mac", "NicWrongMac"],
          ["master", "NicOutOfBridge"],
        ]),
      () =>
        nic.isBlocked
          ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", nic.name)
          : undefined,
      () => judgeMtu(facts, nic),
      () => judgePodNeighbor(seen, nic, findTrace(facts, "outward")?.by ?? []),
      () => judgeFrameLoss(facts, "podNic", nic.name),
    ) ?? ok("it is up", nic.name)
  );
}
