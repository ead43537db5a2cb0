// SPDX-License-Identifier: Apache-2.0
// The hops that are in the pod: tap, bridge, what the pod gives and translates, and its NIC.
import { isWithin, networkOf, parseIp } from "@patchbay/api";
import { frameLostAt } from "./blame.ts";
import type { SeenWay, WayFacts, WayLink, WiringLack } from "./facts.ts";
import { dhcpHistory, lacksServer, traceOf } from "./judge-guest.ts";
import { lostFrames, smallerMtu, type JudgedFacts } from "./judge-frames.ts";
import type { DoctorReason } from "./reasons.ts";
import { absent, dead, firstOf, ok, unknown, withFix, type Verdict } from "./verdict.ts";

const BY_OTHERS = "its frames do not pass the kernel of the pod";

function lackOf(
  { lacks }: SeenWay,
  link: string,
  what: WiringLack["what"],
): WiringLack | undefined {
  return lacks.find((lack) => lack.link === link && lack.what === what);
}

function lacking(
  seen: SeenWay,
  link: WayLink,
  reasons: readonly (readonly [WiringLack["what"], DoctorReason])[],
): Verdict | undefined {
  for (const [what, reason] of reasons) {
    const lack = lackOf(seen, link.name, what);
    if (lack !== undefined) return dead(reason, `it lacks: ${lack.words}`, link.name);
  }
  return undefined;
}

/** Addresses that the guest has and must not send from. */
function refusedOf({ guest, mayClaim }: WayFacts): readonly string[] {
  if (mayClaim === undefined) return [];
  const allowed = mayClaim.flatMap((text) => parseIp(text) ?? []).map(networkOf);
  return (guest?.addresses ?? []).filter((text) => {
    const own = parseIp(text);
    return own !== undefined && !allowed.some((prefix) => isWithin(own, prefix));
  });
}

function guarded(facts: WayFacts, seen: SeenWay, tap: WayLink): Verdict | undefined {
  const refused = refusedOf(facts);
  if (refused.length > 0) {
    const why = `the guest may not send from ${refused.join(", ")}`;
    return dead("GuardRefuses", why, tap.name);
  }
  const why = refusesAnswers(facts, seen) ?? refusesAddress(seen);
  return why === undefined ? undefined : dead("GuardRefuses", why, tap.name);
}

function refusesAnswers(facts: WayFacts, seen: SeenWay): string | undefined {
  const trace = traceOf(facts, "inward");
  if (facts.mayClaim === undefined || trace === undefined) return undefined;
  const isLost = trace.answered.length > 0 && frameLostAt(trace, seen) === "tap";
  if (!isLost) return undefined;
  const why = "what the guest answers comes to the tap and not further";
  const lately = seen.refused.filter((each) => each.lately > 0).map(({ what }) => what);
  return lately.length === 0 ? why : `${why}: its guard refuses ${lately.join(", ")}`;
}

function refusesAddress({ refused }: SeenWay): string | undefined {
  const lately = refused.filter((each) => each.lately > 0 && each.isOfIpv4Address);
  if (lately.length === 0) return undefined;
  const said = lately.map((each) => `${String(each.lately)} of ${each.what}`);
  return `its send guard refused frames of the guest during this check: ${said.join(", ")}`;
}

/** What was refused so far, where nothing is wrong now. */
function refusedSoFar({ refused }: SeenWay): string {
  const said = refused.map(({ what, frames }) => `${String(frames)} of ${what}`);
  return said.length === 0 ? "" : `; its send guard has refused frames before: ${said.join(", ")}`;
}

function closed(tap: WayLink): Verdict | undefined {
  if (!tap.up) return dead("TapDown", "it is down", tap.name);
  if (!tap.carrier) return dead("TapNotOpen", "nobody has it open", tap.name);
  return tap.isBlocked
    ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", tap.name)
    : undefined;
}

/** What the guest's device opens. */
export function judgeTap(facts: JudgedFacts): Verdict {
  const { seen, device } = facts;
  if (seen === undefined)
    return device === undefined ? unknown("nothing is there yet") : unknown(BY_OTHERS);
  const { tap } = seen.links;
  if (tap === undefined) {
    return device === undefined
      ? unknown("it is not there yet")
      : dead("TapMissing", "there is no such link in the pod");
  }
  return (
    firstOf(
      () => closed(tap),
      () => lacking(seen, tap, [["master", "TapOutOfBridge"]]),
      () => smallerMtu(facts, tap),
      () => lacking(seen, tap, [["rules", "RulesChanged"]]),
      () => guarded(facts, seen, tap),
      () => lostFrames(facts, "tap", tap.name),
    ) ?? ok(`it is open, and a port of its bridge${refusedSoFar(seen)}`, tap.name)
  );
}

/** Lacks of its ports that are the bridge's matter. */
function portLack({ lacks }: SeenWay): Verdict | undefined {
  const entry = lacks.find(({ what }) => what === "entry");
  if (entry !== undefined) return dead("EntryMissing", `it lacks: ${entry.words}`);
  const learning = lacks.find(({ what }) => what === "learning");
  return learning === undefined
    ? undefined
    : dead("LearningOn", `a port learns MACs: ${learning.words}`, learning.link);
}

/** An entry that does not age, and that leads a MAC of this path to another port. */
function entryElsewhere(seen: SeenWay): Verdict | undefined {
  const wrong = seen.isBridged ? (seen.entries ?? []).find(({ at }) => at === "pod") : undefined;
  if (wrong === undefined) return undefined;
  const why = `a fixed forwarding entry leads the gateway's MAC ${wrong.mac} to ${wrong.port}`;
  return dead("EntryElsewhere", why, wrong.port);
}

/** A neighbor entry in the pod that does not age, and that has another MAC than the address. */
function wrongNeighbor(seen: SeenWay, link: WayLink, macs: readonly string[]): Verdict | undefined {
  const wrong = (seen.neighbors ?? []).find(
    (each) => each.at === "pod" && each.link === link.name && !macs.includes(each.mac),
  );
  if (wrong === undefined || macs.length === 0) return undefined;
  const { address, mac } = wrong;
  const why = `the pod has a fixed neighbor entry for ${address} with MAC ${mac}, which is at ${macs.join(", ")}`;
  const fix = `\`ip neigh del ${address} dev ${link.name}\` in the pod's network namespace; `;
  return withFix(fix, dead("NeighborWrong", why, link.name));
}

/** Bridge between tap and pod NIC, or the guest's gateway in the pod. */
export function judgePodBridge(facts: JudgedFacts): Verdict {
  const { seen, binding } = facts;
  if (binding === "tap") return absent("the network's plugin made the tap");
  if (seen === undefined) return unknown(BY_OTHERS);
  const bridge = seen.links.podBridge;
  if (bridge === undefined) {
    return facts.device === undefined
      ? unknown("it is not there yet")
      : dead("BridgeMissing", "there is no such link in the pod");
  }
  return (
    firstOf(
      () => (bridge.up ? undefined : dead("BridgeDown", "it is down", bridge.name)),
      () => portLack(seen),
      () =>
        lacking(seen, bridge, [
          ["mac", "BridgeChanged"],
          ["rules", "RulesChanged"],
          ["other", "BridgeChanged"],
        ]),
      () => entryElsewhere(seen),
      () => wrongNeighbor(seen, bridge, facts.device === undefined ? [] : [facts.device.mac]),
      () => lostFrames(facts, "podBridge", bridge.name),
    ) ?? ok("it is up, and knows the guest behind its tap", bridge.name)
  );
}

function byNetwork(facts: WayFacts): Verdict {
  const asked = traceOf(facts, "dhcp");
  if (asked === undefined) return absent("the pod gives this NIC no addresses");
  if (asked.answered.length > 0) return ok(`offered by ${asked.by.join(", ")}`);
  const why = "nobody on the network offers an address by DHCP";
  const { guest } = facts;
  if (guest?.addresses === undefined) return unknown(why);
  return guest.addresses.length > 0
    ? ok(`${why}; the guest has its own`)
    : dead("NobodyOffers", why);
}

/** Who gives the guest its addresses. */
export function judgeAddresses(facts: WayFacts): Verdict {
  if (facts.serves === undefined) return byNetwork(facts);
  return lacksServer(facts)
    ? dead("AddressServerDown", "the DHCP server of this NIC does not run")
    : ok(`the DHCP server of this NIC runs${dhcpHistory(facts)}`);
}

/** The guest's addresses become the pod's. */
export function judgeTranslation({ seen, binding }: WayFacts): Verdict {
  if (binding !== "masquerade") return absent("the guest is not behind the pod's addresses");
  if (seen === undefined) return unknown("nothing is there yet");
  const lack = seen.lacks.find(({ link, what }) => what === "rules" && link === "");
  return lack === undefined
    ? ok("its rules are whole")
    : dead("RulesChanged", `it lacks: ${lack.words}`);
}

function unplugged(facts: WayFacts, seen: SeenWay, nic: WayLink): Verdict | undefined {
  if (!nic.up) return dead("NicDown", "it is down", nic.name);
  if (nic.carrier) return undefined;
  const { onNode, nodePeer } = seen.links;
  // Its other end says so itself.
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

/** What CNI made. */
export function judgePodNic(facts: JudgedFacts): Verdict {
  const { seen, hindrance } = facts;
  if (seen === undefined) return unknown(hindrance ?? BY_OTHERS);
  const nic = seen.links.podNic;
  if (nic === undefined) {
    return dead("NicMissing", hindrance ?? "there is no such link in the pod");
  }
  return (
    firstOf(
      () => unplugged(facts, seen, nic),
      () =>
        lacking(seen, nic, [
          ["mac", "NicWrongMac"],
          ["master", "NicOutOfBridge"],
        ]),
      () =>
        nic.isBlocked
          ? dead("PortBlocked", "this bridge port does not forward (spanning tree)", nic.name)
          : undefined,
      () => smallerMtu(facts, nic),
      () => wrongNeighbor(seen, nic, traceOf(facts, "outward")?.by ?? []),
      () => lostFrames(facts, "podNic", nic.name),
    ) ?? ok("it is up", nic.name)
  );
}
