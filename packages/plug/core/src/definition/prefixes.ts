// SPDX-License-Identifier: Apache-2.0
// From which networks does a definition give addresses, as far as its text says?
import {
  isJsonObject,
  parseIp,
  parseJson,
  type IpPrefix,
  type JsonObject,
  type NetworkAttachmentDefinition,
} from "@patchbay/api";

/**
 * Members of `ipam` that name a network, at whatever depth. Sources: plugins host-local (subnet, ranges), static
 * (addresses), whereabouts (range, ipRanges).
 */
const OF_IPAM: readonly string[] = ["subnet", "range", "address"];
/** Member of a plugin without `ipam`, networks with commas between them. Source: ovn-kubernetes multi-homing. */
const OF_PLUGIN = "subnets";

/** Texts of such members. Not by calls of itself: whoever writes a definition chooses its depth. */
function textsIn(ipam: JsonObject): readonly string[] {
  const found: string[] = [];
  const left: unknown[] = [ipam];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== "object" || value === null) continue;
    // Members of a list have numbers for names.
    for (const [member, inner] of Object.entries(value) as readonly [string, unknown][]) {
      if (typeof inner === "string" && OF_IPAM.includes(member)) found.push(inner);
      left.push(inner);
    }
  }
  return found;
}

function textsOf(plugin: unknown): readonly string[] {
  if (!isJsonObject(plugin)) return [];
  const { ipam } = plugin;
  const subnets = plugin[OF_PLUGIN];
  return [
    ...(isJsonObject(ipam) ? textsIn(ipam) : []),
    ...(typeof subnets === "string" ? subnets.split(",") : []),
  ];
}

/** A network, or the last address of `FIRST-LAST/LENGTH` with the network around it. Source: whereabouts, range. */
function prefixOf(text: string): IpPrefix | undefined {
  return parseIp(text.slice(text.lastIndexOf("-") + 1).trim());
}

/** The networks, by family and size as they are written; empty: a server elsewhere gives addresses, or nobody does. */
export function prefixesOf({ spec }: NetworkAttachmentDefinition): readonly IpPrefix[] {
  const config = parseJson(spec?.config);
  if (!isJsonObject(config)) return [];
  const plugins = Array.isArray(config["plugins"]) ? (config["plugins"] as readonly unknown[]) : [];
  return [config, ...plugins].flatMap(textsOf).flatMap((text) => prefixOf(text) ?? []);
}
