// SPDX-License-Identifier: Apache-2.0
// Programs, links and directories that must exist on a node, because the known plugins of a network definition do not create them.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { NetworkConfigList } from "../../interfaces/cni.ts";

export interface NamedField {
  readonly field: string;
  readonly name: string;
}

/** A host-local pool, whose leases are files in a directory. */
export interface AddressPool {
  /** Prefix of the plugin's field paths in messages, for example `plugins[1].`. Empty if the definition has only one plugin. */
  readonly prefix: string;
  readonly ipam: JsonObject;
  readonly directory: string;
}

export interface DefinitionNeeds {
  readonly plugins: readonly string[];
  readonly links: readonly NamedField[];
  /** Links that must be bridges if they exist. */
  readonly bridges: readonly NamedField[];
  /** Field that requests VLANs on a bridge; undefined if no field does. */
  readonly vlan: string | undefined;
  readonly pools: readonly AddressPool[];
  readonly unfitPlugin: string | undefined;
}

type Plugin = NetworkConfigList["plugins"][number];

/** Configuration member that names a link of the node, by plugin. Sources: plugins macvlan, ipvlan, vlan; ovs-cni. */
const LINK_MEMBERS: ReadonlyMap<string, string> = new Map([
  ["macvlan", "master"],
  ["ipvlan", "master"],
  ["vlan", "master"],
  ["ovs", "bridge"],
]);
/** Values of `type` for the bridge plugin. cluster-network-addons-operator installs the plugin as cnv-bridge. */
const BRIDGE_PLUGINS: readonly string[] = ["bridge", "cnv-bridge"];
/** Source: plugins bridge, defaultBrName. */
const DEFAULT_BRIDGE = "cni0";
/** Plugins whose NICs have the parent link's MAC and accept no other MAC. Source: Linux Documentation/networking/ipvlan.rst */
const UNFIT_PLUGINS: readonly string[] = ["ipvlan"];
/** Source: plugins host-local backend/disk, defaultDataDir. */
const LEASE_DIRECTORY = "/var/lib/cni/networks";

/** Returns a non-empty string member of an untrusted object; undefined for any other value. */
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
  // The node needs no particular link if the name is missing (the plugin then uses the default route's link) or the link is in the pod.
  if (member === undefined || name === undefined || plugin["linkInContainer"] === true) return [];
  return [{ field: `${prefix}${member}`, name }];
}

/** Returns the configured or default bridge of a plugin; undefined if the plugin uses no bridge. */
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
  const prefixes = plugins.map((_, index) =>
    plugins.length > 1 ? `plugins[${String(index)}].` : "",
  );
  const collect = <T>(listNeeds: (plugin: Plugin, prefix: string) => readonly T[]): readonly T[] =>
    plugins.flatMap((plugin, index) => listNeeds(plugin, prefixes[index] ?? ""));
  const [vlan] = collect(listVlanFields);
  const unfitPlugin = plugins.find(({ type }) => UNFIT_PLUGINS.includes(type));
  return {
    plugins: [...new Set(plugins.flatMap(listPrograms))],
    links: collect(listLinks),
    bridges: collect(listBridges),
    vlan,
    pools: collect(listPools),
    unfitPlugin: unfitPlugin?.type,
  };
}

/** For each plugin, the kind of node link that its NICs share, and the member with the link's name. Sources: macvlan; ovs-cni. */
const SHARED_LINKS: Readonly<Record<string, { readonly kind: string; readonly member: string }>> = {
  macvlan: { kind: "link", member: "master" },
  ovs: { kind: "ovs", member: "bridge" },
  ...Object.fromEntries(
    BRIDGE_PLUGINS.map((type) => [type, { kind: "bridge", member: "bridge" }] as const),
  ),
};

function readFirstPlugin(config: JsonObject): JsonObject {
  const { plugins } = config;
  const list: readonly unknown[] = Array.isArray(plugins) ? plugins : [config];
  return isJsonObject(list[0]) ? list[0] : {};
}

/**
 * Plugins whose networks pass frames from any MAC: switches that learn MACs, and routed networks. Sources: Linux bridge and macvlan; Open
 * vSwitch; plugins ptp, vlan, host-device, tap; calico and aws-cni, which route packets to veths.
 */
const ANY_MAC_PLUGINS: readonly string[] = [
  ...BRIDGE_PLUGINS,
  "macvlan",
  "ovs",
  "ptp",
  "vlan",
  "host-device",
  "sriov",
  "tap",
  "calico",
  "aws-cni",
];

/**
 * Returns whether the network may drop frames from MACs that were not assigned to the NIC. Returns true for plugins that are not known
 * to pass all MACs, unless the definition turns the check off. Sources: bridge, `macspoofchk`; sriov-cni, `spoofchk`.
 */
export function mayCheckMacs(config: string | undefined): boolean {
  const parsed = parseJson(config);
  if (!isJsonObject(parsed)) return false;
  const { plugins: list = [parsed] } = parsed;
  const plugins = Array.isArray(list) ? list.filter(isJsonObject) : [];
  const check = plugins.find(
    ({ macspoofchk, spoofchk }) => typeof macspoofchk === "boolean" || isOnOrOff(spoofchk),
  );
  if (check !== undefined) return check["macspoofchk"] === true || check["spoofchk"] === "on";
  const type = readText(plugins[0] ?? {}, "type");
  return type !== undefined && !ANY_MAC_PLUGINS.includes(type);
}

function isOnOrOff(value: unknown): boolean {
  return value === "on" || value === "off";
}

/** Returns the kind, name and VLAN of the link that NICs share, such as `bridge br1 100`. Undefined if the plugin's NICs share no link. */
export function findSharedLink(config: string | undefined): string | undefined {
  const parsed = parseJson(config);
  if (!isJsonObject(parsed)) return undefined;
  const plugin = readFirstPlugin(parsed);
  const type = typeof plugin["type"] === "string" ? plugin["type"] : "";
  const link = Object.hasOwn(SHARED_LINKS, type) ? SHARED_LINKS[type] : undefined;
  if (link === undefined) return undefined;
  const configured = plugin[link.member];
  const fallback = link.kind === "bridge" ? DEFAULT_BRIDGE : "";
  const name = typeof configured === "string" && configured !== "" ? configured : fallback;
  const vlan = typeof plugin["vlan"] === "number" ? plugin["vlan"] : 0;
  return name === "" ? undefined : `${link.kind} ${name} ${String(vlan)}`;
}
