// SPDX-License-Identifier: Apache-2.0
// To which addresses of a network may a Service lead? Not to what any writer of definitions or annotations names: whoever
// may not write slices must not reach by a Service what he could not reach (CVE-2021-25740).
import {
  IP_BITS,
  isWithin,
  parseIp,
  POLICY_FIELDS,
  printAddress,
  type IpPrefix,
  type KubeVirt,
  type NetworkAttachmentDefinition,
} from "@patchbay/api";
import { prefixesOf } from "../definition/prefixes.ts";

/** The networks that an address must be of; `refused` says in words why there is none. */
export type NetworkAddresses =
  | { readonly kind: "allowed"; readonly prefixes: readonly IpPrefix[] }
  | { readonly kind: "refused"; readonly message: string };

/** An address as slices have it. */
export interface ServiceAddress {
  readonly addressType: "IPv4" | "IPv6";
  readonly text: string;
}

/** Where API servers let no slice lead, and what stands for an IPv4 address. Source: Kubernetes ValidateNonSpecialIP. */
const SPECIAL = [
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

/** Namespaces whose definitions are an administrator's. */
export function trustedNamespacesOf(kubevirt: KubeVirt | undefined): readonly string[] {
  const { tenantPolicy } = kubevirt?.spec?.configuration?.network ?? {};
  return tenantPolicy?.trustedNamespaces ?? POLICY_FIELDS.trustedNamespaces.fallback;
}

/** To which addresses of the network, NAMESPACE/NAME, a Service may lead. */
export function addressesOfNetwork(
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
  const prefixes = prefixesOf(definition);
  if (prefixes.length > 0) return { kind: "allowed", prefixes };
  return refused(
    `the NetworkAttachmentDefinition ${network} does not say from which network it gives addresses (subnet, range or addresses of its ipam)`,
  );
}

/** The address; undefined: a Service must not lead there. */
export function serviceAddressOf(
  text: string,
  prefixes: readonly IpPrefix[],
): ServiceAddress | undefined {
  const parsed = parseIp(text);
  if (parsed === undefined) return undefined;
  const address = { ...parsed, length: IP_BITS[parsed.version] };
  const isIn = (prefix: IpPrefix): boolean => isWithin(address, prefix);
  if (!prefixes.some(isIn) || SPECIAL.some(isIn)) return undefined;
  return {
    addressType: address.version === 4 ? "IPv4" : "IPv6",
    text: printAddress(address),
  };
}
