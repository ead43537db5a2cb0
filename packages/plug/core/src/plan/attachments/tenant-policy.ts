// SPDX-License-Identifier: Apache-2.0
// What may a network definition name that a tenant has written? Its plugins run as root on the node.
import { isJsonObject, POLICY_FIELDS, type JsonObject, type PolicyFieldName } from "@patchbay/api";
import type { NetworkConfigList } from "../../ports/cni.ts";

/**
 * Names that are allowed, in order, of which the first that matches counts: `NAME`, `PREFIX*`, and `!` before those that are
 * refused. What nothing matches is refused.
 */
export type Patterns = readonly string[];

/** What definitions of tenants may name, all of it; an administrator's are not limited. */
export type TenantPolicy = Readonly<Record<PolicyFieldName, Patterns>>;

function matches(name: string, pattern: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

function isAllowed(name: string, patterns: Patterns): boolean {
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

/** Texts that name files. Not by calls of itself: whoever writes a definition chooses its depth. */
function pathsIn(plugin: JsonObject): readonly Named[] {
  const found: Named[] = [];
  const left: Place[] = [{ field: "", member: "", value: plugin }];
  for (let place = left.pop(); place !== undefined; place = left.pop()) {
    const { field, member, value } = place;
    if (typeof value === "string" && looksLikePath(member, value)) {
      found.push({ field, text: value });
    }
    left.push(...inside(place).toReversed());
  }
  return found;
}

function isBelow(path: string, directories: readonly string[]): boolean {
  if (path.split("/").includes("..")) return false;
  const plain = path.replaceAll(/\/(?:\.?\/)+/g, "/");
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

/** `text` is what the field names; undefined: nothing. */
function refuse(
  field: string,
  text: string | undefined,
  by: { readonly policy: TenantPolicy; readonly list: PolicyFieldName },
): readonly string[] {
  if (text === undefined || isAllowed(text, by.policy[by.list])) return [];
  return [refusal({ field, text }, by.list)];
}

function bridgeProblem(
  plugin: JsonObject,
  policy: TenantPolicy,
  ownBridges: ReadonlySet<string>,
): readonly string[] {
  // What the plugin takes where none is named. Source: plugins bridge, defaultBrName.
  const isBridge = plugin["type"] === "bridge";
  const name = textOf(plugin, "bridge") ?? (isBridge ? "cni0" : undefined);
  if (name === undefined) return [];
  if (ownBridges.has(name) && !policy.bridges.includes(name)) {
    return [refusal({ field: "bridge", text: name }, "bridges", ", which is the node's own")];
  }
  return refuse("bridge", name, { policy, list: "bridges" });
}

type Plugin = NetworkConfigList["plugins"][number];

function pluginProblems(
  plugin: Plugin,
  policy: TenantPolicy,
  ownBridges: ReadonlySet<string>,
): readonly string[] {
  const master = textOf(plugin, "master");
  const ipam = isJsonObject(plugin["ipam"]) ? textOf(plugin["ipam"], "type") : undefined;
  const { type, ...rest } = plugin;
  return [
    ...refuse("type", type, { policy, list: "plugins" }),
    ...refuse("master", master, { policy, list: "masters" }),
    ...bridgeProblem(plugin, policy, ownBridges),
    ...refuse("ipam.type", ipam, { policy, list: "ipams" }),
    ...pathsIn(rest)
      .filter(({ text }) => !isBelow(text, policy.paths))
      .map((named) => refusal(named, "paths")),
  ];
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
  return definition.config.plugins.flatMap((plugin) => pluginProblems(plugin, policy, ownBridges));
}
