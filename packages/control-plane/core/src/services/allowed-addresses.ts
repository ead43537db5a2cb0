// SPDX-License-Identifier: Apache-2.0
// Addresses of a network that a Service may publish. Tenants cannot extend them by definitions or annotations: a user
// who may not write EndpointSlices must not reach other addresses through a Service (CVE-2021-25740).
import { POLICY_FIELDS, type KubeVirt, type NetworkAttachmentDefinition } from "@patchbay/api";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { IP_BITS, isWithin, parseIp, printAddress, type IpPrefix } from "@patchbay/api/values";

type NetworkAddresses =
  | { readonly kind: "allowed"; readonly prefixes: readonly IpPrefix[] }
  | { readonly kind: "refused"; readonly message: string };

export interface ServiceAddress {
  readonly addressType: "IPv4" | "IPv6";
  readonly text: string;
}

/** Addresses that the API server rejects in EndpointSlices, and IPv4-mapped addresses. Source: Kubernetes ValidateNonSpecialIP. */
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

/** Returns the namespaces whose network definitions come from an administrator. */
export function readTrustedNamespaces(kubevirt: KubeVirt | undefined): readonly string[] {
  const { tenantPolicy } = kubevirt?.spec?.configuration?.network ?? {};
  return tenantPolicy?.trustedNamespaces ?? POLICY_FIELDS.trustedNamespaces.fallback;
}

/** Returns the subnets whose addresses Services may publish, or a refusal. `network` is NAMESPACE/NAME. */
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
  const isIn = (prefix: IpPrefix): boolean => isWithin(address, prefix);
  if (!prefixes.some(isIn) || FORBIDDEN_PREFIXES.some(isIn)) return undefined;
  return {
    addressType: address.version === 4 ? "IPv4" : "IPv6",
    text: printAddress(address),
  };
}

/**
 * Members of `ipam`, at any depth, that name a subnet. Sources: plugins host-local (subnet, ranges), static
 * (addresses), whereabouts (range, ipRanges).
 */
const IPAM_MEMBERS: readonly string[] = ["subnet", "range", "address"];
/** Member of a plugin without `ipam`: comma-separated subnets. Source: ovn-kubernetes multi-homing. */
const SUBNETS_MEMBER = "subnets";

/** Lists the subnets in `ipam`. Uses no recursion, because the definition's author chooses the depth. */
function listIpamTexts(ipam: JsonObject): readonly string[] {
  const found: string[] = [];
  const pending: unknown[] = [ipam];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value !== "object" || value === null) continue;
    for (const [member, inner] of Object.entries(value) as readonly [string, unknown][]) {
      if (typeof inner === "string" && IPAM_MEMBERS.includes(member)) found.push(inner);
      pending.push(inner);
    }
  }
  return found;
}

function listPluginTexts(plugin: unknown): readonly string[] {
  if (!isJsonObject(plugin)) return [];
  const { ipam } = plugin;
  const subnets = plugin[SUBNETS_MEMBER];
  return [
    ...(isJsonObject(ipam) ? listIpamTexts(ipam) : []),
    ...(typeof subnets === "string" ? subnets.split(",") : []),
  ];
}

/** Parses a subnet, or the last address of `FIRST-LAST/LENGTH`. Source: whereabouts, range. */
function parsePrefix(text: string): IpPrefix | undefined {
  return parseIp(text.slice(text.lastIndexOf("-") + 1).trim());
}

/** Lists the subnets of a network; none if an external server assigns the addresses. */
export function listPrefixes({ spec }: NetworkAttachmentDefinition): readonly IpPrefix[] {
  const config = parseJson(spec?.config);
  if (!isJsonObject(config)) return [];
  const plugins = Array.isArray(config["plugins"]) ? (config["plugins"] as readonly unknown[]) : [];
  return [config, ...plugins].flatMap(listPluginTexts).flatMap((text) => parsePrefix(text) ?? []);
}
