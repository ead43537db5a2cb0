// SPDX-License-Identifier: Apache-2.0
// Requirements of a network definition on the node. Covers known plugins, without what they create themselves.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { NetworkConfigList } from "../../interfaces/cni.ts";

export interface NamedField {
  readonly field: string;
  readonly name: string;
}

/** A host-local pool, whose leases are files in a directory. */
export interface AddressPool {
  /** Path prefix of the plugin, for example `plugins[1].`. Empty if there is only one plugin. */
  readonly prefix: string;
  readonly ipam: JsonObject;
  readonly directory: string;
}

export interface DefinitionNeeds {
  /** Programs of plugins and IPAM plugins, each listed once. */
  readonly plugins: readonly string[];
  readonly links: readonly NamedField[];
  /** Links that must be bridges if they exist. */
  readonly bridges: readonly NamedField[];
  /** Field that requests VLANs on a bridge; undefined if no field does. */
  readonly vlan: string | undefined;
  readonly pools: readonly AddressPool[];
  readonly unfitForGuests: string | undefined;
}

type Plugin = NetworkConfigList["plugins"][number];

/** Member that names a link of the node, by plugin. Sources: plugins macvlan, ipvlan, vlan; ovs-cni. */
const LINK_MEMBERS: ReadonlyMap<string, string> = new Map([
  ["macvlan", "master"],
  ["ipvlan", "master"],
  ["vlan", "master"],
  ["ovs", "bridge"],
]);
/** Names of the bridge plugin, which cluster-network-addons-operator installs as cnv-bridge. */
const BRIDGE_PLUGINS: readonly string[] = ["bridge", "cnv-bridge"];
/** Source: plugins bridge, defaultBrName. */
const DEFAULT_BRIDGE = "cni0";
/** Plugins whose NICs cannot carry a guest's MAC. All NICs of an ipvlan share one MAC. Source: Linux Documentation/networking/ipvlan.rst */
const UNFIT_FOR_GUESTS: readonly string[] = ["ipvlan"];
/** Source: plugins host-local backend/disk, defaultDataDir. */
const LEASE_DIRECTORY = "/var/lib/cni/networks";

/** Returns a non-empty string member of an untrusted object. */
export function readText(object: JsonObject, name: string): string | undefined {
  const value = object[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

function readIpam(plugin: Plugin): JsonObject | undefined {
  return isJsonObject(plugin["ipam"]) ? plugin["ipam"] : undefined;
}

function listPrograms(plugin: Plugin): readonly string[] {
  return [plugin.type, readText(readIpam(plugin) ?? {}, "type") ?? []].flat();
}

function listLinks(plugin: Plugin, prefix: string): readonly NamedField[] {
  const member = LINK_MEMBERS.get(plugin.type);
  const name = member === undefined ? undefined : readText(plugin, member);
  // The default is the link of the default route. A link in the pod is not the node's.
  if (member === undefined || name === undefined || plugin["linkInContainer"] === true) return [];
  return [{ field: `${prefix}${member}`, name }];
}

/** Returns the bridge that a plugin names or uses by default; undefined for plugins without one. */
export function readBridge(plugin: JsonObject): string | undefined {
  const isBridge = BRIDGE_PLUGINS.includes(readText(plugin, "type") ?? "");
  return readText(plugin, "bridge") ?? (isBridge ? DEFAULT_BRIDGE : undefined);
}

function listBridges(plugin: Plugin, prefix: string): readonly NamedField[] {
  const name = readBridge(plugin);
  if (name === undefined || !BRIDGE_PLUGINS.includes(plugin.type)) return [];
  return [{ field: `${prefix}bridge`, name }];
}

function listVlanFields(plugin: Plugin, prefix: string): readonly string[] {
  if (!BRIDGE_PLUGINS.includes(plugin.type)) return [];
  const { vlan, vlanTrunk } = plugin;
  if (typeof vlan === "number" && vlan !== 0) return [`${prefix}vlan`];
  return Array.isArray(vlanTrunk) && vlanTrunk.length > 0 ? [`${prefix}vlanTrunk`] : [];
}

function listPools(plugin: Plugin, prefix: string): readonly AddressPool[] {
  const ipam = readIpam(plugin);
  if (ipam === undefined || ipam["type"] !== "host-local") return [];
  const directory = readText(ipam, "dataDir") ?? LEASE_DIRECTORY;
  return directory.startsWith("/") ? [{ prefix, ipam, directory }] : [];
}

export function collectNeeds({ plugins }: NetworkConfigList): DefinitionNeeds {
  const prefixes = plugins.map((_, at) => (plugins.length > 1 ? `plugins[${String(at)}].` : ""));
  const each = <T>(of: (plugin: Plugin, prefix: string) => readonly T[]): readonly T[] =>
    plugins.flatMap((plugin, at) => of(plugin, prefixes[at] ?? ""));
  const [vlan] = each(listVlanFields);
  const unfit = plugins.find(({ type }) => UNFIT_FOR_GUESTS.includes(type));
  return {
    plugins: [...new Set(plugins.flatMap(listPrograms))],
    links: each(listLinks),
    bridges: each(listBridges),
    vlan,
    pools: each(listPools),
    unfitForGuests: unfit?.type,
  };
}

/** Kind of the shared link and the member that names it, by plugin. Sources: plugins macvlan; ovs-cni. */
const SHARED_LINKS: Readonly<Record<string, { readonly kind: string; readonly member: string }>> = {
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

/** Returns the shared link with its VLAN, for example `bridge br1 100`; undefined if the plugin is not known to share a link. */
export function findSharedLink(config: string | undefined): string | undefined {
  const parsed = parseJson(config);
  if (!isJsonObject(parsed)) return undefined;
  const plugin = firstPlugin(parsed);
  const type = typeof plugin["type"] === "string" ? plugin["type"] : "";
  const link = Object.hasOwn(SHARED_LINKS, type) ? SHARED_LINKS[type] : undefined;
  if (link === undefined) return undefined;
  const configured = plugin[link.member];
  const fallback = link.kind === "bridge" ? DEFAULT_BRIDGE : "";
  const name = typeof configured === "string" && configured !== "" ? configured : fallback;
  const vlan = typeof plugin["vlan"] === "number" ? plugin["vlan"] : 0;
  return name === "" ? undefined : `${link.kind} ${name} ${String(vlan)}`;
}
