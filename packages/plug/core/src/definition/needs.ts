// SPDX-License-Identifier: Apache-2.0
// What must a node have for NICs of a network? Only of plugins that are known, and only what they do not make themselves.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api";
import type { NetworkConfigList } from "../ports/cni.ts";

/** Something that the configuration names, and where. */
export interface Named {
  readonly field: string;
  readonly name: string;
}

/** Addresses that plugin host-local gives, and keeps account of in a directory. */
export interface AddressPool {
  /** Of the plugin, for example `plugins[1].`; empty where there is only one. */
  readonly prefix: string;
  readonly ipam: JsonObject;
  /** Absolute. */
  readonly directory: string;
}

/** What the node is asked. */
export interface DefinitionNeeds {
  /** Programs, those of IPAM too; each once. */
  readonly plugins: readonly string[];
  /** Links that must be there. */
  readonly links: readonly Named[];
  /** What must be a bridge, if there is such a link. */
  readonly bridges: readonly Named[];
  /** Where VLANs on bridges are asked for; undefined: nowhere. */
  readonly vlan: string | undefined;
  readonly pools: readonly AddressPool[];
  /** The plugin whose NICs cannot carry a guest's traffic. */
  readonly unfitForGuests: string | undefined;
}

type Plugin = NetworkConfigList["plugins"][number];

/** By plugin: the member that names a link of the node. Sources: plugins macvlan, ipvlan, vlan; ovs-cni. */
const LINK_MEMBERS: ReadonlyMap<string, string> = new Map([
  ["macvlan", "master"],
  ["ipvlan", "master"],
  ["vlan", "master"],
  ["ovs", "bridge"],
]);
/** Source: plugins bridge; cluster-network-addons-operator, which has it under a name of its own. */
const BRIDGE_PLUGINS: readonly string[] = ["bridge", "cnv-bridge"];
/** Source: plugins bridge, defaultBrName. */
const DEFAULT_BRIDGE = "cni0";
/** Its NICs share a MAC. Source: Linux Documentation/networking/ipvlan.rst */
const UNFIT_FOR_GUESTS: readonly string[] = ["ipvlan"];
/** Source: plugins host-local backend/disk, defaultDataDir. */
const LEASES = "/var/lib/cni/networks";

function textOf(object: JsonObject, name: string): string | undefined {
  const value = object[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

function ipamOf(plugin: Plugin): JsonObject | undefined {
  return isJsonObject(plugin["ipam"]) ? plugin["ipam"] : undefined;
}

function programsOf(plugin: Plugin): readonly string[] {
  return [plugin.type, textOf(ipamOf(plugin) ?? {}, "type") ?? []].flat();
}

function linksOf(plugin: Plugin, prefix: string): readonly Named[] {
  const member = LINK_MEMBERS.get(plugin.type);
  const name = member === undefined ? undefined : textOf(plugin, member);
  // Where none is named it is the one of the default route; the pod's own is none of the node's.
  if (member === undefined || name === undefined || plugin["linkInContainer"] === true) return [];
  return [{ field: `${prefix}${member}`, name }];
}

function bridgesOf(plugin: Plugin, prefix: string): readonly Named[] {
  if (!BRIDGE_PLUGINS.includes(plugin.type)) return [];
  return [{ field: `${prefix}bridge`, name: textOf(plugin, "bridge") ?? DEFAULT_BRIDGE }];
}

function vlanOf(plugin: Plugin, prefix: string): readonly string[] {
  if (!BRIDGE_PLUGINS.includes(plugin.type)) return [];
  const { vlan, vlanTrunk } = plugin;
  if (typeof vlan === "number" && vlan !== 0) return [`${prefix}vlan`];
  return Array.isArray(vlanTrunk) && vlanTrunk.length > 0 ? [`${prefix}vlanTrunk`] : [];
}

function poolsOf(plugin: Plugin, prefix: string): readonly AddressPool[] {
  const ipam = ipamOf(plugin);
  if (ipam === undefined || ipam["type"] !== "host-local") return [];
  const directory = textOf(ipam, "dataDir") ?? LEASES;
  return directory.startsWith("/") ? [{ prefix, ipam, directory }] : [];
}

/** All that the configuration needs. */
export function needsOf({ plugins }: NetworkConfigList): DefinitionNeeds {
  const prefixes = plugins.map((_, at) => (plugins.length > 1 ? `plugins[${String(at)}].` : ""));
  const each = <T>(of: (plugin: Plugin, prefix: string) => readonly T[]): readonly T[] =>
    plugins.flatMap((plugin, at) => of(plugin, prefixes[at] ?? ""));
  const [vlan] = each(vlanOf);
  const unfit = plugins.find(({ type }) => UNFIT_FOR_GUESTS.includes(type));
  return {
    plugins: [...new Set(plugins.flatMap(programsOf))],
    links: each(linksOf),
    bridges: each(bridgesOf),
    vlan,
    pools: each(poolsOf),
    unfitForGuests: unfit?.type,
  };
}

/** By plugin: the kind of its link, and the member that names it. Sources: plugins macvlan; ovs-cni. */
const LINKS: Readonly<Record<string, { readonly kind: string; readonly member: string }>> = {
  macvlan: { kind: "link", member: "master" },
  ovs: { kind: "ovs", member: "bridge" },
  ...Object.fromEntries(
    BRIDGE_PLUGINS.map((type) => [type, { kind: "bridge", member: "bridge" }] as const),
  ),
};

function firstPlugin(config: JsonObject): JsonObject {
  const { plugins } = config;
  const list: readonly unknown[] = Array.isArray(plugins) ? plugins : [config];
  return isJsonObject(list[0]) ? list[0] : {};
}

/**
 * Kind, name and VLAN of the link that a CNI configuration connects NICs to, for example `bridge br1 100`; undefined
 * where the plugin is not known to share a link.
 */
export function sharedLinkOf(config: string | undefined): string | undefined {
  const parsed = parseJson(config);
  if (!isJsonObject(parsed)) return undefined;
  const plugin = firstPlugin(parsed);
  const type = typeof plugin["type"] === "string" ? plugin["type"] : "";
  const link = Object.hasOwn(LINKS, type) ? LINKS[type] : undefined;
  if (link === undefined) return undefined;
  const named = plugin[link.member];
  const fallback = link.kind === "bridge" ? DEFAULT_BRIDGE : "";
  const name = typeof named === "string" && named !== "" ? named : fallback;
  const vlan = typeof plugin["vlan"] === "number" ? plugin["vlan"] : 0;
  return name === "" ? undefined : `${link.kind} ${name} ${String(vlan)}`;
}
