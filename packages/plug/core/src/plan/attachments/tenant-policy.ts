// SPDX-License-Identifier: Apache-2.0
// What may a network definition name that a tenant has written? Its plugins run as root on the node.
import { isJsonObject, POLICY_FIELDS, type JsonObject, type PolicyFieldName } from "@patchbay/api";
import type { NetworkConfigList } from "../../ports/cni.ts";
import { needsOf } from "../../definition/needs.ts";

/**
 * Names that are allowed, in order, of which the first that matches counts: `NAME`, `PREFIX*`, and `!` before those that are
 * refused. What nothing matches is refused.
 */
type Patterns = readonly string[];

/** What definitions of tenants may name, all of it; an administrator's are not limited. */
export type TenantPolicy = Readonly<Record<PolicyFieldName, Patterns>>;

function matches(name: string, pattern: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** What no name has. The kernel reads a name up to its first NUL. Source: Linux dev_valid_name. */
const NO_NAME = /[\p{Cc}\s/]/u;

function isAllowed(name: string, patterns: Patterns): boolean {
  if (NO_NAME.test(name)) return false;
  for (const pattern of patterns) {
    const isRefusal = pattern.startsWith("!");
    if (matches(name, isRefusal ? pattern.slice(1) : pattern)) return !isRefusal;
  }
  return false;
}

/** Members whose values are paths, whatever they look like: a plugin takes one that is not absolute from where it runs. */
const PATH_MEMBER = /(?:dir|path|file|socket|conf|config)$/i;

function looksLikePath(member: string, text: string): boolean {
  return text !== "" && (/^[./~]/.test(text) || text.includes("/../") || PATH_MEMBER.test(member));
}

interface Named {
  /** From the plugin, for example `ipam.dataDir`. */
  readonly field: string;
  readonly text: string;
}

/** A value of a plugin's configuration, and where it stands. */
interface Place {
  readonly field: string;
  /** Name of the member that it is, or that its list is. */
  readonly member: string;
  readonly value: unknown;
}

function inside({ field, member, value }: Place): readonly Place[] {
  if (Array.isArray(value)) {
    return value.map((one: unknown, index) => ({
      field: `${field}[${String(index)}]`,
      member,
      value: one,
    }));
  }
  if (!isJsonObject(value)) return [];
  return Object.entries(value).map(([name, one]) => ({
    field: field === "" ? name : `${field}.${name}`,
    member: name,
    value: one,
  }));
}

/** The plugin and all that is in it. Not by calls of itself: whoever writes a definition chooses its depth. */
function placesIn(plugin: JsonObject): readonly Place[] {
  const places: Place[] = [];
  const left: Place[] = [{ field: "", member: "", value: plugin }];
  for (let place = left.pop(); place !== undefined; place = left.pop()) {
    places.push(place);
    left.push(...inside(place).toReversed());
  }
  return places;
}

/** Texts that name files. The type of the plugin itself is a file's name, and is judged as such. */
function pathsIn(places: readonly Place[]): readonly Named[] {
  return places.flatMap(({ field, member, value }) => {
    if (typeof value !== "string" || field === "type") return [];
    return looksLikePath(foldMember(member), value) ? [{ field, text: value }] : [];
  });
}

/** The same path without what changes nothing of it. */
function plainPath(path: string): string {
  return path.replaceAll(/\/(?:\.?\/)+/g, "/");
}

function isBelow(path: string, directories: readonly string[]): boolean {
  if (path.split("/").includes("..")) return false;
  const plain = plainPath(path);
  return directories.some((directory) => plain === directory || plain.startsWith(`${directory}/`));
}

function textOf(object: JsonObject, name: string): string | undefined {
  const value = object[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** The words for what a field names, and the flag that would allow it. */
function refusal({ field, text }: Named, list: PolicyFieldName, why = ""): string {
  return `${field} "${text}"${why} (${POLICY_FIELDS[list].flag})`;
}

/** What a policy says, and of which bridges. */
interface Judge {
  readonly policy: TenantPolicy;
  /** Bridges of the node whose ports are not only those of guests and pods. */
  readonly ownBridges: ReadonlySet<string>;
}

/** `text` is what the field names; undefined: nothing. */
function refuse(
  field: string,
  text: string | undefined,
  by: { readonly policy: TenantPolicy; readonly list: PolicyFieldName },
): readonly string[] {
  if (text === undefined || isAllowed(text, by.policy[by.list])) return [];
  return [refusal({ field, text }, by.list)];
}

/** A plugin's configuration: the definition's own, or one that a plugin hands on to another plugin. */
interface PluginPlace {
  /** What stands before the names of its members. */
  readonly prefix: string;
  readonly plugin: JsonObject;
}

/** Members that hold configurations which a plugin hands on. Sources: plugin flannel; Multus. */
const HANDED_ON: readonly string[] = ["delegate", "delegates", "plugins"];

function pluginsAmong(places: readonly Place[]): readonly PluginPlace[] {
  return places.flatMap(({ field, member, value }) => {
    if (!isJsonObject(value) || (field !== "" && !HANDED_ON.includes(member))) return [];
    return [{ prefix: field === "" ? "" : `${field}.`, plugin: value }];
  });
}

/** They take the link of the default route where they are told of none. Sources: plugins macvlan, ipvlan. */
const WITH_MASTER: readonly string[] = ["macvlan", "ipvlan"];

function masterProblem({ prefix, plugin }: PluginPlace, { policy }: Judge): readonly string[] {
  const name = textOf(plugin, "master");
  const type = textOf(plugin, "type") ?? "";
  if (name !== undefined || !WITH_MASTER.includes(type)) {
    return refuse(`${prefix}master`, name, { policy, list: "masters" });
  }
  if (policy.masters[0] === "*") return [];
  const { flag } = POLICY_FIELDS.masters;
  return [`${prefix}master, without which ${type} takes the link of the default route (${flag})`];
}

/** The bridges that a plugin names. Source of the list: accelerated-bridge-cni. */
function bridgesOf(plugin: JsonObject): readonly string[] {
  // What the plugin takes where none is named. Source: plugins bridge, defaultBrName.
  const fallback = plugin["type"] === "bridge" ? "cni0" : undefined;
  return (textOf(plugin, "bridge") ?? fallback)?.split(",") ?? [];
}

function bridgeProblems(
  { prefix, plugin }: PluginPlace,
  { policy, ownBridges }: Judge,
): readonly string[] {
  const field = `${prefix}bridge`;
  return bridgesOf(plugin).flatMap((name) => {
    if (ownBridges.has(name) && !policy.bridges.includes(name)) {
      return [refusal({ field, text: name }, "bridges", ", which is the node's own")];
    }
    return refuse(field, name, { policy, list: "bridges" });
  });
}

/** A plugin runs it with all of its own configuration, so that it does what it does as a plugin: see `plugins`. */
function ipamProblems({ prefix, plugin }: PluginPlace, { policy }: Judge): readonly string[] {
  const ipam = isJsonObject(plugin["ipam"]) ? textOf(plugin["ipam"], "type") : undefined;
  const field = `${prefix}ipam.type`;
  const problems = refuse(field, ipam, { policy, list: "ipams" });
  const isNamedItself = ipam !== undefined && policy.ipams.includes(ipam);
  if (problems.length > 0 || isNamedItself) return problems;
  return refuse(field, ipam, { policy, list: "plugins" });
}

/** The plugin that takes a NIC away from the node by its name. Whoever may use it may have others do the same. */
const MOVER = "host-device";
/** Members by which plugins take a device of the node. Sources: sriov-cni; Multus delegateAddDeviceID. */
const DEVICE_MEMBERS = ["deviceID", "pciBusID"] as const;

/** What would take a NIC away from the node. */
function nicProblems({ prefix, plugin }: PluginPlace, { policy }: Judge): readonly string[] {
  if (isAllowed(MOVER, policy.plugins)) return [];
  const given = plugin["runtimeConfig"];
  const devices = [
    { at: prefix, object: plugin },
    ...(isJsonObject(given) ? [{ at: `${prefix}runtimeConfig.`, object: given }] : []),
  ].flatMap(({ at, object }) =>
    DEVICE_MEMBERS.flatMap((member) => {
      const text = textOf(object, member);
      return text === undefined ? [] : [{ field: `${at}${member}`, text }];
    }),
  );
  const problems = devices.map((named) => refusal(named, "plugins", ", a device of the node"));
  // Source: bond-cni, README.
  if (plugin["type"] !== "bond" || plugin["linksInContainer"] === true) return problems;
  const bond = `${prefix}linksInContainer, without which bond takes links of the node (${POLICY_FIELDS.plugins.flag})`;
  return [...problems, bond];
}

function pluginProblems(place: PluginPlace, judge: Judge): readonly string[] {
  const type = textOf(place.plugin, "type");
  return [
    ...refuse(`${place.prefix}type`, type, { policy: judge.policy, list: "plugins" }),
    ...masterProblem(place, judge),
    ...bridgeProblems(place, judge),
    ...ipamProblems(place, judge),
    ...nicProblems(place, judge),
  ];
}

function problemsOf(plugin: JsonObject, judge: Judge): readonly string[] {
  const places = placesIn(plugin);
  return [
    ...places.flatMap(({ field, value }) => spellingProblems(field, value)),
    ...pluginsAmong(places).flatMap((place) => pluginProblems(place, judge)),
    ...pathsIn(places)
      .filter(({ text }) => !isBelow(text, judge.policy.paths))
      .map((named) => refusal(named, "paths")),
  ];
}

/** The plugins of a list, and those that they hand on to. */
function pluginsIn({ plugins }: NetworkConfigList): readonly JsonObject[] {
  return plugins.flatMap((plugin) => pluginsAmong(placesIn(plugin)).map((place) => place.plugin));
}

/** Bridges of the node that plugins of the list name, or choose where the list names none. */
export function listNamedBridges(config: NetworkConfigList): readonly string[] {
  return pluginsIn(config).flatMap(bridgesOf);
}

/** Whether it matters which bridges the node has. */
export function namesBridge(config: NetworkConfigList): boolean {
  return listNamedBridges(config).length > 0;
}

/** Directories in which host-local keeps account of the network's addresses: who has the same has the same addresses. */
export function leaseDirectoriesOf(config: NetworkConfigList): readonly string[] {
  const plugins = pluginsIn(config).map((plugin) => ({ ...plugin, type: "" }));
  const { pools } = needsOf({ ...config, plugins });
  return pools.map(({ directory }) => plainPath(`${directory}/${config.name}`));
}

/**
 * All that a definition names and may not, each with the flag of net-agent that would allow it; none for an administrator's.
 * `ownBridges`: bridges of the node whose ports are not only those of guests and pods.
 */
export function policyProblems(
  definition: { readonly namespace: string; readonly config: NetworkConfigList },
  policy: TenantPolicy,
  ownBridges: ReadonlySet<string>,
): readonly string[] {
  if (policy.trustedNamespaces.includes(definition.namespace)) return [];
  return definition.config.plugins.flatMap((plugin) => problemsOf(plugin, { policy, ownBridges }));
}

/** The same for names that Go takes for one, those with U+017F and U+212A too. */
function foldMember(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/** Members of plugins' configurations that are read or written here. */
const READ_HERE: ReadonlyMap<string, string> = new Map(
  [
    "type",
    "name",
    "cniVersion",
    "ipam",
    "dataDir",
    "args",
    "cni",
    "master",
    "bridge",
    "capabilities",
    "runtimeConfig",
    "prevResult",
    "delegate",
    "delegates",
    "plugins",
    "deviceID",
    "pciBusID",
    "linksInContainer",
  ].map((name) => [foldMember(name), name]),
);

/** Members of an object that plugins take for another one; `field`: where it is, empty for the plugin itself. */
function spellingProblems(field: string, value: unknown): readonly string[] {
  if (!isJsonObject(value)) return [];
  const seen = new Map<string, string>();
  return Object.keys(value).flatMap((name) => {
    const folded = foldMember(name);
    const meant = READ_HERE.get(folded) ?? seen.get(folded) ?? name;
    seen.set(folded, meant);
    if (meant === name) return [];
    return [`${field === "" ? "" : `${field}.`}${name}, which plugins take for ${meant}`];
  });
}
