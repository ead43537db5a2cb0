// SPDX-License-Identifier: Apache-2.0
// Reads links as iproute2 prints them.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core";
import type { Link } from "@patchbay/ports";

/** A text, or nothing. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A number, or 0. */
export function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

/** A link with what wiring sets on it. Source: `ip -j -d addr`. */
export interface WiredLink extends Link {
  /** It neither asks nor answers for addresses. */
  readonly noArp: boolean;
  /** Of a bridge: neither spanning tree nor delay nor snooping of multicast. */
  readonly plain: boolean;
  /** Of a port of a bridge: the MACs behind it are learned. */
  readonly learning: boolean;
}

function childOf(value: unknown, key: string): JsonObject {
  const child = isJsonObject(value) ? value[key] : undefined;
  return isJsonObject(child) ? child : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

function addressOf(entry: JsonObject): string {
  return `${textOf(entry["local"])}/${String(numberOf(entry["prefixlen"]))}`;
}

/** Values as the kernel has them, by name. */
const PLAIN_BRIDGE = { stp_state: 0, forward_delay: 0, mcast_snooping: 0 };

/** Source: linux/drivers/net/tun.c, IFLA_TUN_MULTI_QUEUE. */
function queuesOf(info: JsonObject): Pick<Link, "takesQueues"> {
  const several = childOf(info, "info_data")["multi_queue"];
  return typeof several === "boolean" ? { takesQueues: several ? "many" : "one" } : {};
}

function linkOf(entry: JsonObject): WiredLink {
  const info = childOf(entry, "linkinfo");
  const flags = listOf(entry["flags"]);
  const master = textOf(entry["master"]);
  const bridge = childOf(info, "info_data");
  return {
    name: textOf(entry["ifname"]),
    index: numberOf(entry["ifindex"]),
    kind: textOf(info["info_kind"]),
    mac: textOf(entry["address"]),
    mtu: numberOf(entry["mtu"]),
    up: flags.includes("UP"),
    carrier: flags.includes("LOWER_UP"),
    ...(master === "" ? {} : { master }),
    ...queuesOf(info),
    addresses: listOf(entry["addr_info"]).filter(isJsonObject).map(addressOf),
    noArp: flags.includes("NOARP"),
    plain: Object.entries(PLAIN_BRIDGE).every(([name, value]) => bridge[name] === value),
    learning: childOf(info, "info_slave_data")["learning"] !== false,
  };
}

/** Entries of a list that iproute2 printed. */
export function parseList(text: string): readonly JsonObject[] {
  try {
    const value: unknown = text.trim() === "" ? [] : JSON.parse(text);
    // iproute2 6.1 prints empty objects for links that a filter leaves out.
    if (Array.isArray(value)) return value.filter(isJsonObject);
  } catch {
    // Falls through to the error below: both mean that the program is not the one we know.
  }
  throw new AppError("PODNET_FAILED", { message: "the output is no JSON list" });
}

/** Reads the output of `ip -j -d addr`, sorted by name. */
export function parseLinks(text: string): readonly WiredLink[] {
  return parseList(text)
    .filter((entry) => textOf(entry["ifname"]) !== "")
    .map(linkOf)
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** One entry of a bridge's forwarding database. */
export interface ForwardingEntry {
  readonly mac: string;
  /** The port. */
  readonly device: string;
  /** `static`, `permanent`, or empty for a learned one. */
  readonly state: string;
}

/** Reads the output of `bridge -j fdb`; entries of the devices themselves are left out. */
export function parseForwarding(text: string): readonly ForwardingEntry[] {
  return parseList(text)
    .filter((entry) => textOf(entry["master"]) !== "")
    .map((entry) => ({
      mac: textOf(entry["mac"]),
      device: textOf(entry["ifname"]),
      state: textOf(entry["state"]),
    }));
}
