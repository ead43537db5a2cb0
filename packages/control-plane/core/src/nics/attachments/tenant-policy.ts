// SPDX-License-Identifier: Apache-2.0
// Tenant policy of a node. CNI plugins run as root, so the policy limits what network definitions of tenants may reference.
import {
  POLICY_FIELDS,
  names,
  POLICY_FIELD_NAMES,
  validatePolicyList,
  type PolicyFieldName,
  type ClusterTenantPolicy,
  type KubeVirt,
} from "@patchbay/api";
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { collectProblems, cutText, QUOTE_LENGTH_MAX } from "@patchbay/api/limits";
import type { Cause } from "@patchbay/api/kubernetes";
import { isWithin, parseIp, type IpPrefix } from "@patchbay/api/values";
import type { NetworkConfigList } from "../../interfaces/cni.ts";
import { collectNeeds, readBridge, readText } from "../definition/needs.ts";
import { HOST_DEVICE_PLUGIN } from "./node-nics.ts";

/**
 * Patterns `NAME` and `PREFIX*`. The first pattern that matches a name decides: it allows the name, or refuses it if the
 * pattern begins with `!`. A name that matches no pattern is refused.
 */
type Patterns = readonly string[];

export type TenantPolicy = Readonly<Record<PolicyFieldName, Patterns>>;

function matchesPattern(name: string, pattern: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** Characters that are invalid in the kernel's interface names. Source: Linux dev_valid_name. */
const INVALID_NAME = /[\p{Cc}\s/]/u;

function isAllowed(name: string, patterns: Patterns): boolean {
  if (INVALID_NAME.test(name)) return false;
  for (const pattern of patterns) {
    const isRefusal = pattern.startsWith("!");
    if (matchesPattern(name, isRefusal ? pattern.slice(1) : pattern)) return !isRefusal;
  }
  return false;
}

/** Endings of member names. The value of a member with such an ending counts as a path even if the value does not look like a path. */
const PATH_MEMBER = /(?:dir|path|file|socket|conf|config)$/i;
/** Length of the longest ending in {@link PATH_MEMBER}. Names are cut to their last characters, because matching long names is slow. */
const PATH_MEMBER_LENGTH_MAX = "socket".length;

function looksLikePath(member: string, text: string): boolean {
  return text !== "" && (/^[./~]/.test(text) || text.includes("/../") || PATH_MEMBER.test(member));
}

export interface NamedValue {
  /** Path of the member in the plugin's configuration, for example `ipam.dataDir`. */
  readonly field: string;
  readonly text: string;
}

export interface ConfigMember {
  readonly field: string;
  readonly member: string;
  readonly value: unknown;
}

/** Limit on a member's path in messages, in characters. Once a path is longer, names of nested members are not appended. */
const FIELD_LENGTH_MAX = 4 * QUOTE_LENGTH_MAX;

export function appendToField(field: string, part: string): string {
  if (field.length > FIELD_LENGTH_MAX) return field;
  return `${field}${cutText(part)}`;
}

export function listChildren({ field, member, value }: ConfigMember): readonly ConfigMember[] {
  if (Array.isArray(value)) {
    return value.map((item: unknown, index) => ({
      field: appendToField(field, `[${String(index)}]`),
      member,
      value: item,
    }));
  }
  if (!isJsonObject(value)) return [];
  return Object.entries(value).map(([name, one]) => ({
    field: appendToField(field, field === "" ? name : `.${name}`),
    member: name,
    value: one,
  }));
}

/** Lists the plugin's configuration and all values in it. Avoids recursion, because deeply nested values would overflow the stack. */
function listMembers(plugin: JsonObject): readonly ConfigMember[] {
  const members: ConfigMember[] = [];
  const pending: ConfigMember[] = [{ field: "", member: "", value: plugin }];
  for (let member = pending.pop(); member !== undefined; member = pending.pop()) {
    members.push(member);
    for (const child of listChildren(member).toReversed()) pending.push(child);
  }
  return members;
}

/** Lists values that look like paths, except the plugin's own `type`, which is checked as a plugin name. */
function listPaths(members: readonly ConfigMember[]): readonly NamedValue[] {
  return members.flatMap(({ field, member, value }) => {
    if (typeof value !== "string" || field === "type") return [];
    const suffix = foldCase(member.slice(-PATH_MEMBER_LENGTH_MAX));
    return looksLikePath(suffix, value) ? [{ field, text: value }] : [];
  });
}

function normalizePath(path: string): string {
  return path.replaceAll(/\/(?:\.?\/)+/g, "/");
}

function isBelow(path: string, directories: readonly string[]): boolean {
  if (path.split("/").includes("..")) return false;
  const normalized = normalizePath(path);
  return directories.some(
    (directory) => normalized === directory || normalized.startsWith(`${directory}/`),
  );
}

export function describeRefusal(
  { field, text }: NamedValue,
  list: PolicyFieldName,
  why = "",
): string {
  return `${field} "${cutText(text)}"${why} (${POLICY_FIELDS[list].flag})`;
}

interface PolicyContext {
  readonly policy: TenantPolicy;
  /** Bridges of the node itself, for example with a physical NIC. The policy allows them only by their full names, not by `PREFIX*`. */
  readonly nodeBridges: ReadonlySet<string>;
}

function checkName(
  field: string,
  text: string | undefined,
  rule: { readonly policy: TenantPolicy; readonly list: PolicyFieldName },
): readonly string[] {
  if (text === undefined || isAllowed(text, rule.policy[rule.list])) return [];
  return [describeRefusal({ field, text }, rule.list)];
}

export interface PluginMember {
  readonly prefix: string;
  readonly plugin: JsonObject;
}

/** Members that contain configurations of further plugins. Sources: plugin flannel; Multus. */
const DELEGATE_MEMBERS: readonly string[] = ["delegate", "delegates", "plugins"];

function listPluginMembers(members: readonly ConfigMember[]): readonly PluginMember[] {
  return members.flatMap(({ field, member, value }) => {
    if (!isJsonObject(value) || (field !== "" && !DELEGATE_MEMBERS.includes(member))) return [];
    return [{ prefix: field === "" ? "" : `${field}.`, plugin: value }];
  });
}

/** Plugins that use the link of the default route if `master` is unset. Sources: plugins macvlan, ipvlan. */
const PLUGINS_WITH_MASTER: readonly string[] = ["macvlan", "ipvlan"];

function findMasterProblems(
  { prefix, plugin }: PluginMember,
  { policy }: PolicyContext,
): readonly string[] {
  const name = readText(plugin, "master");
  const type = readText(plugin, "type") ?? "";
  if (name !== undefined || !PLUGINS_WITH_MASTER.includes(type)) {
    return checkName(`${prefix}master`, name, { policy, list: "masters" });
  }
  if (policy.masters[0] === "*") return [];
  const { flag } = POLICY_FIELDS.masters;
  return [`${prefix}master, without which ${type} takes the link of the default route (${flag})`];
}

/** Lists the bridges in a plugin's configuration. accelerated-bridge-cni accepts a comma-separated list. */
export function listBridges(plugin: JsonObject): readonly string[] {
  return readBridge(plugin)?.split(",") ?? [];
}

function findBridgeProblems(
  { prefix, plugin }: PluginMember,
  { policy, nodeBridges }: PolicyContext,
): readonly string[] {
  const field = `${prefix}bridge`;
  return listBridges(plugin).flatMap((name) => {
    if (nodeBridges.has(name) && !policy.bridges.includes(name)) {
      return [describeRefusal({ field, text: name }, "bridges", ", which is the node's own")];
    }
    return checkName(field, name, { policy, list: "bridges" });
  });
}

/** Checks the IPAM plugin. If `ipams` allows it only by a pattern with `*`, `plugins` must allow it too, because patterns may be broad. */
function findIpamProblems(
  { prefix, plugin }: PluginMember,
  { policy }: PolicyContext,
): readonly string[] {
  const ipam = isJsonObject(plugin["ipam"]) ? readText(plugin["ipam"], "type") : undefined;
  const field = `${prefix}ipam.type`;
  const problems = checkName(field, ipam, { policy, list: "ipams" });
  const isNamedItself = ipam !== undefined && policy.ipams.includes(ipam);
  if (problems.length > 0 || isNamedItself) return problems;
  return checkName(field, ipam, { policy, list: "plugins" });
}

/** Members that select a device of the node. Sources: sriov-cni; Multus delegateAddDeviceID. */
const DEVICE_MEMBERS = ["deviceID", "pciBusID"] as const;

function findNicProblems(
  { prefix, plugin }: PluginMember,
  { policy }: PolicyContext,
): readonly string[] {
  // A policy that allows host-device already lets tenants move any NIC, so device IDs are allowed as well.
  if (isAllowed(HOST_DEVICE_PLUGIN, policy.plugins)) return [];
  const runtimeConfig = plugin["runtimeConfig"];
  const devices = [
    { path: prefix, object: plugin },
    ...(isJsonObject(runtimeConfig)
      ? [{ path: `${prefix}runtimeConfig.`, object: runtimeConfig }]
      : []),
  ].flatMap(({ path, object }) =>
    DEVICE_MEMBERS.flatMap((member) => {
      const text = readText(object, member);
      return text === undefined ? [] : [{ field: `${path}${member}`, text }];
    }),
  );
  const problems = devices.map((named) =>
    describeRefusal(named, "plugins", ", a device of the node"),
  );
  // Source: bond-cni, README.
  if (plugin["type"] !== "bond" || plugin["linksInContainer"] === true) return problems;
  const bond = `${prefix}linksInContainer, without which bond takes links of the node (${POLICY_FIELDS.plugins.flag})`;
  return [...problems, bond];
}

function findPluginProblems(member: PluginMember, context: PolicyContext): readonly string[] {
  const type = readText(member.plugin, "type");
  return [
    ...checkName(`${member.prefix}type`, type, { policy: context.policy, list: "plugins" }),
    ...findMasterProblems(member, context),
    ...findBridgeProblems(member, context),
    ...findIpamProblems(member, context),
    ...findNicProblems(member, context),
    ...findRuntimeMemberProblems(member),
  ];
}

function listPluginProblems(plugin: JsonObject, context: PolicyContext): readonly string[] {
  const members = listMembers(plugin);
  const checks: readonly (() => readonly string[])[] = [
    () => collectProblems(members, ({ field, value }) => findMemberCaseProblems(field, value)),
    () =>
      collectProblems(listPluginMembers(members), (member) => findPluginProblems(member, context)),
    () =>
      collectProblems(listPaths(members), (named) =>
        isBelow(named.text, context.policy.paths) ? [] : [describeRefusal(named, "paths")],
      ),
  ];
  return collectProblems(checks, (check) => check());
}

export function listAllPlugins({ plugins }: NetworkConfigList): readonly PluginMember[] {
  return plugins.flatMap((plugin) => listPluginMembers(listMembers(plugin)));
}

function listPlugins(config: NetworkConfigList): readonly JsonObject[] {
  return listAllPlugins(config).map(({ plugin }) => plugin);
}

export function listNamedBridges(config: NetworkConfigList): readonly string[] {
  return listPlugins(config).flatMap(listBridges);
}

export function namesBridge(config: NetworkConfigList): boolean {
  return listNamedBridges(config).length > 0;
}

/** Lists host-local's lease directories. Networks with the same directory share a pool of addresses. */
export function listLeaseDirectories(config: NetworkConfigList): readonly string[] {
  const plugins = listPlugins(config).map((plugin) => ({ ...plugin, type: "" }));
  const { pools } = collectNeeds({ ...config, plugins });
  return pools.map(({ directory }) => normalizePath(`${directory}/${config.name}`));
}

export function findPolicyProblems(
  definition: { readonly namespace: string; readonly config: NetworkConfigList },
  policy: TenantPolicy,
  nodeBridges: ReadonlySet<string>,
): readonly string[] {
  if (policy.trustedNamespaces.includes(definition.namespace)) return [];
  return collectProblems(definition.config.plugins, (plugin) =>
    listPluginProblems(plugin, { policy, nodeBridges }),
  );
}

/** Members that a container runtime derives for each call. Source: CNI SPEC 1.1 section 3; CNI CONVENTIONS, "args". */
const RUNTIME_MEMBERS: readonly string[] = ["runtimeConfig", "args", "prevResult"].map(foldCase);

function isRuntimeMember(name: string): boolean {
  return RUNTIME_MEMBERS.includes(foldCase(name));
}

export function listRuntimeMembers({ plugins }: NetworkConfigList): readonly string[] {
  return plugins.flatMap((plugin, index) => {
    const prefix = plugins.length > 1 ? `plugins[${String(index)}].` : "";
    return Object.keys(plugin).flatMap((name) =>
      isRuntimeMember(name) ? [`${prefix}${name}`] : [],
    );
  });
}

/** Drops the members that only the runtime may set. In delegates, {@link findPolicyProblems} refuses them. */
export function withoutRuntimeMembers(config: NetworkConfigList): NetworkConfigList {
  const plugins = config.plugins.map((plugin) => {
    const members = Object.entries(plugin).filter(([name]) => !isRuntimeMember(name));
    return { ...Object.fromEntries(members), type: plugin.type };
  });
  return { ...config, plugins };
}

function findRuntimeMemberProblems({ prefix, plugin }: PluginMember): readonly string[] {
  if (prefix === "") return [];
  return Object.keys(plugin)
    .filter(isRuntimeMember)
    .map((name) => `${prefix}${name}, which only the runtime sets`);
}

/** Folds case like Go's JSON decoder, which also takes U+017F for `s` and U+212A for `k`. Source: Go encoding/json, foldName. */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

const KNOWN_MEMBERS: ReadonlyMap<string, string> = new Map(
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
  ].map((name) => [foldCase(name), name]),
);

/**
 * Reports members whose name differs only by case from a known or an earlier member. A plugin would take one name for the other, because
 * Go's decoder ignores case. `field` is the path of `value`, empty for the plugin's configuration itself.
 */
function findMemberCaseProblems(field: string, value: unknown): readonly string[] {
  if (!isJsonObject(value)) return [];
  const firstNames = new Map<string, string>();
  return Object.keys(value).flatMap((name) => {
    const folded = foldCase(name);
    const canonical = KNOWN_MEMBERS.get(folded) ?? firstNames.get(folded) ?? name;
    firstNames.set(folded, canonical);
    if (canonical === name) return [];
    const path = `${field === "" ? "" : `${field}.`}${cutText(name)}`;
    return [`${path}, which plugins take for ${cutText(canonical)}`];
  });
}

const POLICY_FIELD = "spec.configuration.network.tenantPolicy";

function buildPolicy(readList: (name: PolicyFieldName) => readonly string[]): TenantPolicy {
  const entries = POLICY_FIELD_NAMES.map((name) => [name, readList(name)] as const);
  return Object.fromEntries(entries) as unknown as TenantPolicy;
}

export const DEFAULT_POLICY: TenantPolicy = buildPolicy((name) => POLICY_FIELDS[name].fallback);

/** Returns whether this KubeVirt object is the place for the policy: it is in Patchbay's namespace, or already contains a policy. */
function hasPolicyField(kubevirt: KubeVirt | undefined): boolean {
  if (kubevirt === undefined) return false;
  return (
    kubevirt.metadata.namespace === names.SERVICES_NAMESPACE ||
    kubevirt.spec?.configuration?.network?.tenantPolicy !== undefined
  );
}

export function describePolicySetting(kubevirt: KubeVirt | undefined): string {
  return hasPolicyField(kubevirt) ? `, or in ${POLICY_FIELD} of the KubeVirt object` : "";
}

export function overlaps(one: IpPrefix, other: IpPrefix): boolean {
  return isWithin(one, other) || isWithin(other, one);
}

export function parsePrefixes(texts: readonly string[]): readonly IpPrefix[] {
  return texts.flatMap((text) => parseIp(text) ?? []);
}

function findOverlapCauses(
  ranges: readonly string[],
  clusterNetworks: readonly string[],
): readonly Cause[] {
  return ranges.flatMap((text, index) => {
    const [range] = parsePrefixes([text]);
    const network = clusterNetworks.find((other) =>
      parsePrefixes([other]).some((prefix) => range !== undefined && overlaps(range, prefix)),
    );
    if (network === undefined) return [];
    const cause: Cause = {
      reason: "FieldValueInvalid",
      field: `${POLICY_FIELD}.ranges[${String(index)}]`,
      message: `"${text}" overlaps the cluster network ${network}`,
    };
    return [cause];
  });
}

interface PolicySources {
  readonly flags: ClusterTenantPolicy;
  /** The KubeVirt object. Undefined if the object does not exist or access is forbidden. */
  readonly kubevirt: KubeVirt | undefined;
  readonly previous: TenantPolicy | undefined;
}

interface ChosenPolicy {
  readonly policy: TenantPolicy;
  readonly causes: readonly Cause[];
}

/**
 * Chooses each pattern list from the flags, or else the KubeVirt object, or else the defaults. If the KubeVirt object has an
 * invalid list, the whole previous policy remains in force. Without a previous policy, an invalid list allows nothing.
 */
export function choosePolicy({ flags, kubevirt, previous }: PolicySources): ChosenPolicy {
  const configuredLists = kubevirt?.spec?.configuration?.network?.tenantPolicy ?? {};
  const clusterNetworks = flags.clusterNetworks ?? configuredLists.clusterNetworks ?? [];
  const causesOf = (name: PolicyFieldName): readonly Cause[] => {
    const list = configuredLists[name];
    if (list === undefined) return [];
    const causes = validatePolicyList(name, list, `${POLICY_FIELD}.${name}`);
    const isChecked = name === "ranges" && causes.length === 0 && Array.isArray(clusterNetworks);
    return isChecked ? findOverlapCauses(list, clusterNetworks) : causes;
  };
  const causes = POLICY_FIELD_NAMES.flatMap(causesOf);
  if (causes.length > 0 && previous !== undefined) return { policy: previous, causes };
  const policy = buildPolicy((name) => {
    const configured = causesOf(name).length > 0 ? [] : configuredLists[name];
    return flags[name] ?? configured ?? POLICY_FIELDS[name].fallback;
  });
  return { policy, causes };
}
