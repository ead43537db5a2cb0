// SPDX-License-Identifier: Apache-2.0
// A gateway that answers ARP: whether it is the right host, and whether IP passes it.
import { isWithin, networkOf, parseIp } from "@patchbay/api";
import type { SeenWay, WayFacts } from "./facts.ts";
import { isMisdirected, outsideMac } from "./judge-frames.ts";
import { traceOf } from "./judge-guest.ts";
import { dead, firstOf, ok, unknown, type Verdict } from "./verdict.ts";

/** MACs that answer for the address beside the gateway's own, which is the node's where the node has the address. */
function claimants({ target, links }: SeenWay, hosts: readonly string[]): readonly string[] {
  if (target?.at !== "bridge") return hosts.slice(1);
  const own = [links.nodeBridge, links.nodePeer].flatMap((link) => link?.mac ?? []);
  return hosts.filter((mac) => !own.includes(mac));
}

/** More hosts than the gateway answer for its address. */
export function claimed(
  facts: WayFacts,
  seen: SeenWay,
  by: readonly string[],
): Verdict | undefined {
  const hosts = by.filter((mac) => mac !== facts.device?.mac);
  if (claimants(seen, hosts).length === 0) return undefined;
  const traces = [traceOf(facts, "ping"), traceOf(facts, "connect")];
  const used = new Set(traces.flatMap((trace) => trace?.to ?? []));
  const guest = used.size === 0 ? "" : `; the guest sends to ${[...used].join(", ")}`;
  const why = `${hosts.join(" and ")} answer for this address${guest}`;
  return dead("GatewayClaimed", why, seen.target?.address);
}

/** The gateway sends what it answers to another host. */
function misdirected(facts: WayFacts, { target }: SeenWay): Verdict | undefined {
  const echo = traceOf(facts, "echo");
  if (echo === undefined || !isMisdirected(facts, echo)) return undefined;
  const why = `it sends its answers to ${echo.to.join(", ")}, and the address is at ${outsideMac(facts) ?? ""}`;
  return dead("NeighborWrong", why, target?.address);
}

/** The node has the gateway's address with a length that leaves the guest out, so it sends answers elsewhere. */
function wrongPrefix({ target, links, source }: SeenWay): Verdict | undefined {
  const guest = source === undefined ? undefined : parseIp(source);
  if (target?.at !== "bridge" || guest === undefined) return undefined;
  const all = [links.nodeBridge, links.nodePeer].flatMap((link) => link?.addresses ?? []);
  const own = all.filter((text) => text.split("/")[0] === target.address);
  const reaches = all.some((text) => {
    const subnet = parseIp(text);
    return subnet !== undefined && isWithin(guest, networkOf(subnet));
  });
  if (own.length === 0 || reaches) return undefined;
  const why = `it answers ARP, not IP: the node has it as ${own.join(", ")}, a network without ${source ?? ""}`;
  return dead("GatewayPrefixWrong", why, target.address);
}

/** Whether the node forwards and translates what it must. */
function notForwarded({ forwarded, target }: SeenWay): Verdict | undefined {
  if (forwarded === undefined || forwarded.isAnswered) return undefined;
  const { link, gateway, left, answersNode } = forwarded;
  const to = `pings of the guest to ${gateway} by ${link}`;
  if (left === "no") {
    const why = `the node does not forward ${to}`;
    return dead("ForwardingRefused", why, target?.address);
  }
  if (!answersNode) return undefined;
  if (left === "asGuest") {
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

/** It answers ARP from one host. */
export function answering(facts: WayFacts, seen: SeenWay, by: readonly string[]): Verdict {
  const { target } = seen;
  const echo = traceOf(facts, "echo");
  const answered = `answered by ${by.join(", ")}`;
  const fault = firstOf(() => misdirected(facts, seen));
  if (fault !== undefined) return fault;
  if (echo === undefined || echo.answered.length > 0) {
    return notForwarded(seen) ?? ok(answered, target?.address);
  }
  const why = `${answered}; it answers ARP, not IP: it may refuse pings, or the address may belong to another host`;
  return wrongPrefix(seen) ?? notForwarded(seen) ?? unknown(why, target?.address);
}
