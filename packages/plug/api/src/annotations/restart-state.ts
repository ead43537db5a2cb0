// SPDX-License-Identifier: Apache-2.0
// Addresses that NICs had before: which a VMI is told of, and which an element of the network selection prefers.
import { parseIp, printAddress } from "../values/ip.ts";
import { isJsonObject, parseJson } from "../values/json.ts";
import type { NetworkSelection } from "./networks.ts";
import type { PcieTopology } from "../kinds/vm.ts";

/** What one iface had on one network. */
export interface KeptAddresses {
  /** Name of the iface. */
  readonly name: string;
  /** NAMESPACE/NAME of the network definition. */
  readonly networkName: string;
  /** Without prefix length, each in the one spelling in which addresses are compared. */
  readonly ips: readonly string[];
}

/** Most addresses of one NIC that are kept; whoever writes a status of networks can name as many as it holds. */
const ADDRESSES_MAX = 16;

/** Addresses in the one spelling, without prefix length; what is none is left out. */
export function soundAddresses(texts: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(texts) ? texts : [];
  const sound = list.flatMap((text) => {
    const address = typeof text === "string" ? parseIp(text) : undefined;
    return address === undefined ? [] : [printAddress(address)];
  });
  return [...new Set(sound)].slice(0, ADDRESSES_MAX);
}

function toEntry(value: unknown): readonly KeptAddresses[] {
  if (!isJsonObject(value)) return [];
  const { name, networkName } = value;
  if (typeof name !== "string" || typeof networkName !== "string") return [];
  return [{ name, networkName, ips: soundAddresses(value["ips"]) }];
}

/** Reads the annotation of a VMI; what is missing or malformed was not kept. */
export function parseKeptAddresses(text: string | undefined): readonly KeptAddresses[] {
  const value = parseJson(text);
  return Array.isArray(value) ? value.flatMap(toEntry) : [];
}

/** Writes the annotation; the order of the ifaces is kept. */
export function printKeptAddresses(kept: readonly KeptAddresses[]): string {
  return JSON.stringify(kept);
}

/** The addresses that an element prefers, which is not to fail for their sake. */
export function keptIpsOf(element: NetworkSelection | undefined): readonly string[] {
  return soundAddresses(element?.["io.patchbay.kept-ips"]);
}

type Entry = PcieTopology["interfaces"][number];

function isEntry(value: unknown): value is Entry {
  return (
    isJsonObject(value) &&
    typeof value["name"] === "string" &&
    typeof value["pciAddress"] === "string"
  );
}

/** Reads the annotation; undefined when it is absent or cannot be read: the devices are then laid out anew. */
export function parsePcieTopology(text: string | undefined): PcieTopology | undefined {
  const value = parseJson(text);
  if (!isJsonObject(value)) return undefined;
  const { version, interfaces, devices } = value;
  if (typeof version !== "number" || !Array.isArray(interfaces)) return undefined;
  if (!interfaces.every(isEntry)) return undefined;
  // One that was written before devices were remembered has none.
  const isKept = Array.isArray(devices) && devices.every(isEntry);
  return { version, interfaces, ...(isKept ? { devices } : {}) };
}

/** Writes the annotation; the order of the interfaces is kept. */
export function printPcieTopology(topology: PcieTopology): string {
  return JSON.stringify(topology);
}
