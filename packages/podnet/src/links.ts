// SPDX-License-Identifier: Apache-2.0
// Reads links as iproute2 prints them.
import { AppError } from "@patchbay/core";
import type { Link } from "@patchbay/ports";

type JsonObject = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function linkOf(entry: JsonObject): Link {
  const info = entry["linkinfo"];
  const flags = entry["flags"];
  const master = textOf(entry["master"]);
  return {
    name: textOf(entry["ifname"]),
    index: numberOf(entry["ifindex"]),
    kind: isObject(info) ? textOf(info["info_kind"]) : "",
    mac: textOf(entry["address"]),
    mtu: numberOf(entry["mtu"]),
    up: Array.isArray(flags) && flags.includes("UP"),
    ...(master === "" ? {} : { master }),
  };
}

function parseList(text: string): readonly JsonObject[] {
  try {
    const value: unknown = text.trim() === "" ? [] : JSON.parse(text);
    // iproute2 6.1 prints empty objects for links that a filter leaves out.
    if (Array.isArray(value)) return value.filter(isObject);
  } catch {
    // Falls through to the error below: both mean that the program is not the one we know.
  }
  throw new AppError("PODNET_FAILED", { message: "the output is no JSON list" });
}

/** Reads the output of `ip -j -d link`, sorted by name. */
export function parseLinks(text: string): readonly Link[] {
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

/** Reads the output of `bridge -j fdb show br BRIDGE`; entries of the devices themselves are left out. */
export function parseForwarding(text: string): readonly ForwardingEntry[] {
  return parseList(text)
    .filter((entry) => textOf(entry["master"]) !== "")
    .map((entry) => ({
      mac: textOf(entry["mac"]),
      device: textOf(entry["ifname"]),
      state: textOf(entry["state"]),
    }));
}
