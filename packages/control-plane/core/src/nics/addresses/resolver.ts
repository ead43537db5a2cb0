// SPDX-License-Identifier: Apache-2.0
import { isJsonObject } from "@patchbay/api/json";
import { parseIp, printAddress, parseSloppyIp } from "@patchbay/api/values";

export interface DnsSettings {
  readonly nameservers: readonly string[];
  readonly search: readonly string[];
}

/** Maximum numbers of name servers and search domains. Source: Kubernetes MaxDNSNameservers and MaxDNSSearchPaths. */
const NAMESERVERS_MAX = 3;
const SEARCH_MAX = 32;
const DNS_NAME =
  /^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?$/;
/** Maximum length of a DNS name, in characters. Source: RFC 1035 section 2.3.4 */
const DNS_NAME_MAX = 253;

/** Checks whether the guest can use a name server. Loopback addresses and addresses with a zone, such as `%eth0`, work only in the pod. */
function isForGuest(nameserver: string): boolean {
  const ip = parseIp(nameserver);
  if (ip === undefined) return false;
  const address = printAddress(ip);
  return address !== "::1" && !address.startsWith("127.");
}

/** Parses an untrusted resolv.conf. Source: resolv.conf(5) */
export function parseResolver(text: string): DnsSettings {
  const lines = text.split("\n").map((line) => line.trim().split(/\s+/));
  const nameservers = lines.flatMap(([key, value = ""]) => (key === "nameserver" ? [value] : []));
  const lists = lines.flatMap(([key, ...values]) => (key === "search" ? [values] : []));
  return toSettings(nameservers, lists.at(-1) ?? []);
}

function toSettings(nameservers: readonly string[], search: readonly string[]): DnsSettings {
  const names = search.filter((name) => name.length <= DNS_NAME_MAX && DNS_NAME.test(name));
  return {
    nameservers: nameservers.filter(isForGuest).slice(0, NAMESERVERS_MAX),
    search: names.slice(0, SEARCH_MAX),
  };
}

function filterTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

/** Parses the untrusted `dns` of a network. Returns undefined if no name server is usable. Source: CNI SPEC 1.1, "dns" */
export function parseNetworkDns(dns: unknown): DnsSettings | undefined {
  const { nameservers, search } = isJsonObject(dns) ? dns : {};
  const settings = toSettings(filterTexts(nameservers), filterTexts(search));
  return settings.nameservers.length === 0 ? undefined : settings;
}

/** Removes leading zeros, which KubeVirt accepts, from an address. Returns any other text unchanged. */
export function normalizeAddress(text: string): string {
  const ip = parseSloppyIp(text);
  return ip === undefined ? text : printAddress(ip);
}
