// SPDX-License-Identifier: Apache-2.0
// Codecs of the VMI annotations that preserve a VM's addresses and PCI layout across restarts.
import { parseIp, printAddress } from "../values/ip.ts";
import { isJsonObject, parseJson } from "../values/json.ts";
import { isNicMac, normalizeMac } from "../values/mac.ts";
import type { NetworkSelection } from "./networks.ts";
import type { PcieTopology } from "../kinds/vm.ts";

export interface RetainedAddresses {
  readonly name: string;
  /** NAMESPACE/NAME of the NetworkAttachmentDefinition. */
  readonly networkName: string;
  /** Normalized addresses without prefix length. */
  readonly ips: readonly string[];
}

/** Maximum number of retained addresses per NIC. Pod authors can write any number into the network-status annotation. */
const ADDRESSES_MAX = 16;

/** Normalizes addresses. Removes prefix lengths, duplicates and invalid entries. Returns at most {@link ADDRESSES_MAX}. */
export function normalizeAddresses(values: unknown): readonly string[] {
  const entries: readonly unknown[] = Array.isArray(values) ? values : [];
  const addresses = entries.flatMap((text) => {
    const address = typeof text === "string" ? parseIp(text) : undefined;
    return address === undefined ? [] : [printAddress(address)];
  });
  return [...new Set(addresses)].slice(0, ADDRESSES_MAX);
}

function toEntry(value: unknown): readonly RetainedAddresses[] {
  if (!isJsonObject(value)) return [];
  const { name, networkName } = value;
  if (typeof name !== "string" || typeof networkName !== "string") return [];
  return [{ name, networkName, ips: normalizeAddresses(value["ips"]) }];
}

export function parseRetainedAddresses(text: string | undefined): readonly RetainedAddresses[] {
  const value = parseJson(text);
  return Array.isArray(value) ? value.flatMap(toEntry) : [];
}

export function printRetainedAddresses(addresses: readonly RetainedAddresses[]): string {
  return JSON.stringify(addresses);
}

/** Returns the addresses that IPAM should assign if they are available. */
export function parsePreferredIps(element: NetworkSelection | undefined): readonly string[] {
  return normalizeAddresses(element?.["io.patchbay.kept-ips"]);
}

export interface RetainedMac {
  readonly name: string;
  /** NetworkAttachmentDefinition as NAMESPACE/NAME. Unset for the pod's network. */
  readonly networkName?: string;
  /** MAC in lower case, with colons. */
  readonly macAddress: string;
}

function toRetainedMac(value: unknown): readonly RetainedMac[] {
  if (!isJsonObject(value)) return [];
  const { name, networkName, macAddress } = value;
  const isNamed = networkName === undefined || typeof networkName === "string";
  if (typeof name !== "string" || !isNamed) return [];
  if (typeof macAddress !== "string" || !isNicMac(macAddress)) return [];
  const mac = { macAddress: normalizeMac(macAddress) };
  return [networkName === undefined ? { name, ...mac } : { name, networkName, ...mac }];
}

export function parseRetainedMacs(text: string | undefined): readonly RetainedMac[] {
  const value = parseJson(text);
  return Array.isArray(value) ? value.flatMap(toRetainedMac) : [];
}

type PciEntry = PcieTopology["interfaces"][number];

function isPciEntry(value: unknown): value is PciEntry {
  return (
    isJsonObject(value) &&
    typeof value["name"] === "string" &&
    typeof value["pciAddress"] === "string"
  );
}

export function parsePcieTopology(text: string | undefined): PcieTopology | undefined {
  const value = parseJson(text);
  if (!isJsonObject(value)) return undefined;
  const { version, interfaces, devices } = value;
  if (typeof version !== "number" || !Array.isArray(interfaces)) return undefined;
  if (!interfaces.every(isPciEntry)) return undefined;
  // Does not require `devices`, because annotations of older Patchbay versions lack it.
  const isRetained = Array.isArray(devices) && devices.every(isPciEntry);
  return { version, interfaces, ...(isRetained ? { devices } : {}) };
}

export function printPcieTopology(topology: PcieTopology): string {
  return JSON.stringify(topology);
}
