// SPDX-License-Identifier: Apache-2.0
// Addresses that a Service may publish. Tenants must not reach arbitrary addresses through a Service (CVE-2021-25740).
import { POLICY_FIELDS, type KubeVirt, type NetworkAttachmentDefinition } from "@patchbay/api";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import {
  IP_BITS,
  isAddressWithin,
  isWithin,
  parseIp,
  printAddress,
  type IpPrefix,
} from "@patchbay/api/values";

type NetworkAddresses =
  | { readonly kind: "allowed"; readonly prefixes: readonly IpPrefix[] }
  | { readonly kind: "refused"; readonly message: string };

export interface ServiceAddress {
  readonly addressType: "IPv4" | "IPv6";
  readonly text: string;
}

/**
 * Unspecified, loopback, link-local, multicast, broadcast and IPv4-mapped addresses. The API server rejects most of these in
 * EndpointSlices. Source: Kubernetes ValidateNonSpecialIP; RFC 6890.
 */
const FORBIDDEN_PREFIXES = [
  "0.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "224.0.0.0/4",
  "255.255.255.255/32",
  "::/127",
  "::ffff:0:0/96",
  "fe80::/10",
  "ff00::/8",
].flatMap((text) => parseIp(text) ?? []);

export function isSpecialAddress(text: string): boolean {
  return isAddressWithin(text, FORBIDDEN_PREFIXES);
}

/** Returns the trusted namespaces. Patchbay assumes that only administrators create network definitions in them. */
export function readTrustedNamespaces(kubevirt: KubeVirt | undefined): readonly string[] {
  const { tenantPolicy } = kubevirt?.spec?.configuration?.network ?? {};
  return tenantPolicy?.trustedNamespaces ?? POLICY_FIELDS.trustedNamespaces.fallback;
}

/** Returns the subnets whose addresses a Service may publish, or a refusal. `network` has the form NAMESPACE/NAME. */
export function findAllowedAddresses(
  network: string,
  definition: NetworkAttachmentDefinition | undefined,
  trustedNamespaces: readonly string[],
): NetworkAddresses {
  const [namespace = ""] = network.split("/");
  const refused = (message: string): NetworkAddresses => ({ kind: "refused", message });
  if (!trustedNamespaces.includes(namespace)) {
    return refused(
      `the definition of network ${network} is a tenant's: Services lead to networks that an administrator has defined, in one of the namespaces ${trustedNamespaces.join(", ")} (spec.configuration.network.tenantPolicy.trustedNamespaces of the KubeVirt object)`,
    );
  }
  if (definition === undefined) {
    return refused(`there is no NetworkAttachmentDefinition ${network}`);
  }
  const prefixes = listPrefixes(definition);
  if (prefixes.length > 0) return { kind: "allowed", prefixes };
  return refused(
    `the NetworkAttachmentDefinition ${network} does not name the subnet of its addresses (subnet, range or addresses of its ipam)`,
  );
}

export function parseServiceAddress(
  text: string,
  prefixes: readonly IpPrefix[],
): ServiceAddress | undefined {
  const parsed = parseIp(text);
  if (parsed === undefined) return undefined;
  const address = { ...parsed, length: IP_BITS[parsed.version] };
  const isAllowed = prefixes.some((prefix) => isWithin(address, prefix));
  if (!isAllowed || isSpecialAddress(text)) return undefined;
  return {
    addressType: address.version === 4 ? "IPv4" : "IPv6",
    text: printAddress(address),
  };
}

/** Members of `ipam` that contain a subnet, at any depth. Sources: plugins host-local, static, whereabouts. */
const IPAM_MEMBERS: readonly string[] = ["subnet", "range", "address"];
/** Member with comma-separated subnets, in plugin configurations without `ipam`. Source: ovn-kubernetes multi-homing. */
const SUBNETS_MEMBER = "subnets";

/** Lists the subnets in `ipam` as unparsed strings. Uses no recursion, because the author of the definition controls the depth. */
function listIpamTexts(ipam: JsonObject): readonly string[] {
  const texts: string[] = [];
  const remainingValues: unknown[] = [ipam];
  while (remainingValues.length > 0) {
    const value = remainingValues.pop();
    if (typeof value !== "object" || value === null) continue;
    for (const [member, memberValue] of Object.entries(value) as readonly [string, unknown][]) {
      if (typeof memberValue === "string" && IPAM_MEMBERS.includes(member)) texts.push(memberValue);
      remainingValues.push(memberValue);
    }
  }
  return texts;
}

function listPluginSubnets(plugin: unknown): readonly string[] {
  if (!isJsonObject(plugin)) return [];
  const { ipam } = plugin;
  const subnets = plugin[SUBNETS_MEMBER];
  return [
    ...(isJsonObject(ipam) ? listIpamTexts(ipam) : []),
    ...(typeof subnets === "string" ? subnets.split(",") : []),
  ];
}

/** Parses a subnet. In whereabouts' form `FIRST-LAST/LENGTH`, parses only LAST/LENGTH. */
function parsePrefix(text: string): IpPrefix | undefined {
  return parseIp(text.slice(text.lastIndexOf("-") + 1).trim());
}

/** Lists the subnets of a network. Returns an empty list if an external server assigns the addresses. */
export function listPrefixes({ spec }: NetworkAttachmentDefinition): readonly IpPrefix[] {
  const config = parseJson(spec?.config);
  if (!isJsonObject(config)) return [];
  const plugins = Array.isArray(config["plugins"]) ? (config["plugins"] as readonly unknown[]) : [];
  return [config, ...plugins].flatMap(listPluginSubnets).flatMap((text) => parsePrefix(text) ?? []);
}
