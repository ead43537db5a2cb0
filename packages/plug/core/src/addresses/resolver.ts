// SPDX-License-Identifier: Apache-2.0
// Whom does a guest ask for names? Whom its pod asks, or whom a network says is to be asked there.
import { isJsonObject, parseIp, printAddress, parseSloppyIp } from "@patchbay/api";

/** Servers of names, and what is put behind a name that is asked for. */
export interface DnsSettings {
  readonly nameservers: readonly string[];
  readonly search: readonly string[];
}

/** Source: Kubernetes MaxDNSNameservers and MaxDNSSearchPaths. */
const NAMESERVERS_MAX = 3;
const SEARCH_MAX = 32;
/** A name of the DNS, perhaps with a dot at its end. */
const NAME =
  /^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?$/;
/** Longest name. Source: RFC 1035 section 2.3.4 */
const NAME_MAX = 253;

/** The pod's own loopback is none of the guest's; a zone names a link that it has not. */
function isForGuest(nameserver: string): boolean {
  const ip = parseIp(nameserver);
  if (ip === undefined) return false;
  const address = printAddress(ip);
  return address !== "::1" && !address.startsWith("127.");
}

/** Reads a resolv.conf, whoever wrote it. Source: resolv.conf(5) */
export function parseResolver(text: string): DnsSettings {
  const lines = text.split("\n").map((line) => line.trim().split(/\s+/));
  const nameservers = lines.flatMap(([key, value = ""]) => (key === "nameserver" ? [value] : []));
  const lists = lines.flatMap(([key, ...values]) => (key === "search" ? [values] : []));
  return settingsOf(nameservers, lists.at(-1) ?? []);
}

function settingsOf(nameservers: readonly string[], search: readonly string[]): DnsSettings {
  const names = search.filter((name) => name.length <= NAME_MAX && NAME.test(name));
  return {
    nameservers: nameservers.filter(isForGuest).slice(0, NAMESERVERS_MAX),
    search: names.slice(0, SEARCH_MAX),
  };
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

/** Reads what a network says of name servers, whoever wrote it; undefined: it names none. Source: CNI SPEC 1.1, "dns" */
export function parseNetworkDns(dns: unknown): DnsSettings | undefined {
  const { nameservers, search } = isJsonObject(dns) ? dns : {};
  const settings = settingsOf(textsOf(nameservers), textsOf(search));
  return settings.nameservers.length === 0 ? undefined : settings;
}

/** The address in its usual form, without leading zeros; text that is no address stays as it is. */
export function normalizeAddress(text: string): string {
  const ip = parseSloppyIp(text);
  return ip === undefined ? text : printAddress(ip);
}
