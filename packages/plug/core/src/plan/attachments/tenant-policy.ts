// SPDX-License-Identifier: Apache-2.0
// What may a network definition name that a tenant has written? Its plugins run as root on the node.
import { isJsonObject, type JsonObject } from "@patchbay/api";
import type { NetworkConfigList } from "../../ports/cni.ts";

/**
 * Names that are allowed, in order, of which the first that matches counts: `NAME`, `PREFIX*`, and `!` before those that are
 * refused. What nothing matches is refused.
 */
export type Patterns = readonly string[];

/** What definitions of tenants may name; an administrator's are not limited. */
export interface TenantPolicy {
  /** Whose definitions are an administrator's. */
  readonly trustedNamespaces: readonly string[];
  readonly plugins: Patterns;
  /** Links of the node that a NIC is made on: `master`. */
  readonly masters: Patterns;
  /** A bridge with a port that is the node's own must be named itself. */
  readonly bridges: Patterns;
  readonly ipams: Patterns;
  /** Directories, and files, that plugins may read and write. */
  readonly paths: readonly string[];
}

/** As net-agent has it unless told otherwise. Sources: plugins host-local, dhcp, tuning; names that runtimes give to bridges. */
export const DEFAULT_POLICY: TenantPolicy = {
  trustedNamespaces: ["default", "kube-system", "patchbay"],
  // It takes a NIC away from the node.
  plugins: ["!host-device", "*"],
  masters: ["*"],
  // Those of the pods' own network, and of other programs' guests.
  bridges: ["!cni0", "!docker0", "!podman*", "!virbr*", "*"],
  ipams: ["*"],
  paths: [
    "/var/lib/cni/networks",
    "/run/cni",
    "/var/run/cni",
    "/run/openvswitch",
    "/var/run/openvswitch",
  ],
};

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

/** `text` is what the field names; undefined: nothing. */
function refuse(
  { field, text }: { readonly field: string; readonly text: string | undefined },
  patterns: Patterns,
  flag: string,
): readonly string[] {
  return text === undefined || isAllowed(text, patterns) ? [] : [`${field} "${text}" (${flag})`];
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
    return [`bridge "${name}", which is the node's own (--tenant-bridges)`];
  }
  return refuse({ field: "bridge", text: name }, policy.bridges, "--tenant-bridges");
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
    ...refuse({ field: "type", text: type }, policy.plugins, "--tenant-plugins"),
    ...refuse({ field: "master", text: master }, policy.masters, "--tenant-masters"),
    ...bridgeProblem(plugin, policy, ownBridges),
    ...refuse({ field: "ipam.type", text: ipam }, policy.ipams, "--tenant-ipams"),
    ...pathsIn(rest)
      .filter(({ text }) => !isBelow(text, policy.paths))
      .map(({ field, text }) => `${field} "${text}" (--tenant-paths)`),
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
