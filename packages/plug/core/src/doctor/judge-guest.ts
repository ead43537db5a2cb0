// SPDX-License-Identifier: Apache-2.0
// The hops that are the guest's: the guest itself, and its device.
import { frameLostAt, questionLostAt } from "./blame.ts";
import type { FrameTrace, ProbeName, WayFacts } from "./facts.ts";
import { lossyHop } from "./judge-frames.ts";
import { dead, firstOf, ok, unknown, type Verdict } from "./verdict.ts";

/** The trace of a probe; undefined: it was not made. */
export function traceOf({ seen }: WayFacts, probe: ProbeName): FrameTrace | undefined {
  return seen?.traces.find((trace) => trace.probe === probe);
}

/** Nobody gives it one: that is said where addresses are given. */
export function lacksServer(facts: WayFacts): boolean {
  const asked = traceOf(facts, "dhcp");
  return facts.serves === false || (asked !== undefined && asked.answered.length === 0);
}

/** Text to append: how often the guest has sent DHCP requests. Empty if the pod assigns this NIC no addresses. */
export function dhcpHistory({ seen }: WayFacts): string {
  const times = seen?.dhcpRequests;
  if (times === undefined) return "";
  if (times === 0) return "; the guest has sent no DHCP request since this NIC was wired";
  return `; the guest has sent ${String(times)} DHCP request${times === 1 ? "" : "s"}`;
}

function wrongMac({ device, guest, ...facts }: WayFacts): Verdict | undefined {
  if (device === undefined) return undefined;
  const said = `the device has MAC ${device.mac}`;
  if (guest !== undefined && guest.macs.length > 0 && !guest.macs.includes(device.mac)) {
    return dead("WrongMacInGuest", `${said}; the guest's agent tells of ${guest.macs.join(", ")}`);
  }
  const others = (traceOf(facts, "inward")?.by ?? []).filter((mac) => mac !== device.mac);
  if (others.length === 0) return undefined;
  return dead("WrongMacInGuest", `${said}; the guest answers from ${others.join(", ")}`);
}

function duplicate(facts: WayFacts): Verdict | undefined {
  const own = [...(facts.ownMacs ?? []), ...(facts.guest?.macs ?? []), facts.device?.mac];
  const others = (traceOf(facts, "own")?.by ?? []).filter((mac) => !own.includes(mac));
  if (others.length === 0) return undefined;
  return dead("DuplicateAddress", `${others.join(", ")} has the guest's address too`);
}

/** Whether frames come to a guest that could answer, and nothing comes back. */
function isSilent({ seen, device }: WayFacts, trace: FrameTrace): boolean {
  const couldAnswer = device?.linkUp === true && seen?.links.tap?.carrier === true;
  return seen !== undefined && couldAnswer && frameLostAt(trace, seen) === "guest";
}

/** Why a guest that answers no ARP may still be well; undefined: its agent reports the address that was probed. */
function silenceExplained(facts: WayFacts): string | undefined {
  if (facts.isPaused === true) return "it is paused, so it answers nothing";
  const { guest } = facts;
  if ((guest?.addresses?.length ?? 0) > 0) return undefined;
  if (lacksServer(facts)) return "it does not answer ARP, and no server gave it an address";
  const cause =
    guest === undefined
      ? "no guest agent answers: the guest may still boot, or use an address of its own"
      : "its agent reports no address at this NIC";
  const assigned = "it does not answer ARP for the address that the network assigned";
  return `${assigned}; ${cause}${dhcpHistory(facts)}`;
}

function silent(facts: WayFacts): Verdict | undefined {
  const trace = traceOf(facts, "inward");
  if (trace === undefined || !isSilent(facts, trace)) return undefined;
  const explanation = silenceExplained(facts);
  if (explanation !== undefined) return unknown(explanation);
  return dead("GuestSilent", "frames leave the tap to the guest, and it answers none of them");
}

/** MACs that the guest's frames for its gateway may be addressed to. */
function gatewayMacs(facts: WayFacts): readonly string[] {
  const { seen } = facts;
  const own = seen?.links.podBridge?.mac;
  if (seen?.isBridged === true) return traceOf(facts, "outward")?.by ?? [];
  return own === undefined ? [] : [own];
}

/** It answers ARP alone: a firewall drops what comes to it by IP, whatever it may open itself. */
function refusesIp(facts: WayFacts): Verdict | undefined {
  const { seen } = facts;
  const traces = [traceOf(facts, "ping"), traceOf(facts, "connect")].filter(
    (each) => each !== undefined,
  );
  const isSilentByIp = traces.length === 2 && traces.every(({ answered }) => answered.length === 0);
  if (seen === undefined || !isSilentByIp) return undefined;
  // Without its gateway's answers by ARP a guest can send that nothing by IP.
  const hearsGateway = traceOf(facts, "outward")?.answered.includes("podNic") === true;
  if (seen.isBridged && !hearsGateway) return undefined;
  if (traces.some((trace) => questionLostAt(trace, seen) !== undefined)) return undefined;
  const why = "it answers ARP, not IP: neither pings nor connections that come to it";
  if (facts.isPaused === true || facts.isWindows === true) {
    return unknown(`${why}; the firewall of Windows refuses both by default`);
  }
  return dead("GuestRefusesIp", why);
}

/** Where the guest sends what is for its gateway. */
function wrongNeighbor(facts: WayFacts): Verdict | undefined {
  const trace = [traceOf(facts, "ping"), traceOf(facts, "connect")].find(
    (each) => each !== undefined && each.to.length > 0,
  );
  const known = gatewayMacs(facts);
  if (trace === undefined || known.length === 0) return undefined;
  if (trace.to.some((mac) => known.includes(mac))) return undefined;
  const why = `it sends frames for its gateway to ${trace.to.join(", ")}, and the gateway answers from ${known.join(", ")}`;
  return dead("NeighborWrong", why);
}

function addressless(facts: WayFacts): Verdict | undefined {
  const { guest } = facts;
  if (guest?.addresses?.length !== 0) return undefined;
  const why = `the guest's agent tells of no address at this NIC${dhcpHistory(facts)}`;
  return lacksServer(facts) ? unknown(why) : dead("NoAddressInGuest", why);
}

function routeless({ guest, leadsOut }: WayFacts): Verdict | undefined {
  if (!leadsOut || guest?.hasDefaultRoute !== false) return undefined;
  return dead("NoDefaultRoute", "the guest's agent tells of no default route of IPv4");
}

function speaking(facts: WayFacts): Verdict {
  if (traceOf(facts, "inward")?.answered.includes("tap") === true) {
    return ok("it answers at its tap");
  }
  const { guest } = facts;
  if ((guest?.addresses?.length ?? 0) > 0) {
    return ok(`its agent tells of ${guest?.addresses?.join(", ") ?? ""}`);
  }
  return unknown("no address of it is known, and no agent tells of it");
}

/** The guest itself. */
export function judgeGuest(facts: WayFacts): Verdict {
  if (facts.device === undefined) return unknown("it has no such NIC yet");
  return (
    firstOf(
      () => wrongMac(facts),
      // A guest that finds its address in use does not take it, and is silent.
      () => duplicate(facts),
      () => silent(facts),
      () => addressless(facts),
      () => routeless(facts),
      () => wrongNeighbor(facts),
      () => refusesIp(facts),
      () => lossyHop(facts, "guest"),
    ) ?? speaking(facts)
  );
}

/** Its device. */
export function judgeDevice({ device, hindrance, binding }: WayFacts): Verdict {
  if (device === undefined) {
    if (binding === "hook") return unknown("a hook makes this NIC; libvirt need not know of it");
    return dead("NotPlugged", hindrance ?? "libvirt has no device for this interface");
  }
  return device.linkUp
    ? ok("its link is up", device.mac)
    : dead("DeviceLinkDown", "libvirt has set its link down", device.mac);
}
