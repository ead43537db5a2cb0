// SPDX-License-Identifier: Apache-2.0
// Parses and prints CNI network configurations, CNI results of all versions, and the annotation `network-status`.
// Source: CNI SPEC 1.1 sections 1 and 5; NPWG 1.3 section 5
import type { NetworkStatus } from "@patchbay/api/annotations";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import {
  CNI_CONFIG_DEPTH_MAX,
  CNI_CONFIG_LENGTH_MAX,
  CNI_PLUGINS_MAX,
  collectProblems,
} from "@patchbay/api/limits";
import type { Cause } from "@patchbay/api/kubernetes";
import { memoize, parseIp } from "@patchbay/api/values";
import { messageOf } from "@patchbay/base";
import type { CniResult, NetworkConfigList } from "@patchbay/core/interfaces";
import { findNewestVersion, VERSION_WHEN_ABSENT, isAtLeast } from "./version.ts";

type ParsedNetworkConfig =
  | { readonly ok: true; readonly config: NetworkConfigList }
  | { readonly ok: false; readonly causes: readonly Cause[]; readonly isBeyondLimit?: true };

/** Default prefix of the paths in error causes: the field of a NetworkAttachmentDefinition that contains the configuration. */
const DEFAULT_FIELD = "spec.config";
/** Source: CNI pkg/utils ValidateNetworkName */
const NETWORK_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

type Plugin = NetworkConfigList["plugins"][number];

function invalid(field: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message };
}

function isPlugin(value: unknown): value is Plugin {
  return isJsonObject(value) && typeof value["type"] === "string" && isFileName(value["type"]);
}

export function isFileName(text: string): boolean {
  return text !== "" && text !== "." && text !== ".." && !/[/\0]/.test(text);
}

export function textProblem(text: string): string {
  if (text.trim() === "") return "is empty; it must hold a CNI configuration";
  try {
    JSON.parse(text);
    return "is not a JSON object";
  } catch (error) {
    return `is not a JSON object: ${messageOf(error).replace(/\p{Cc}+/gu, " ")}`;
  }
}

function chooseVersion(config: JsonObject): string | undefined {
  const version = config["cniVersion"];
  const versions = config["cniVersions"];
  const offeredVersions = [
    ...(typeof version === "string" && version !== "" ? [version] : []),
    ...(Array.isArray(versions)
      ? versions.filter((item): item is string => typeof item === "string")
      : []),
  ];
  return offeredVersions.length === 0 ? VERSION_WHEN_ABSENT : findNewestVersion(offeredVersions);
}

function isDeeperThan(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return depth === 0 || Object.values(value).some((child) => isDeeperThan(child, depth - 1));
}

function findLimitCause(config: unknown, fieldPath: string): Cause | undefined {
  if (isDeeperThan(config, CNI_CONFIG_DEPTH_MAX)) {
    const message = `has more than ${String(CNI_CONFIG_DEPTH_MAX)} levels of lists and objects`;
    return invalid(fieldPath, message);
  }
  const plugins = isJsonObject(config) ? config["plugins"] : undefined;
  if (!Array.isArray(plugins) || plugins.length <= CNI_PLUGINS_MAX) return undefined;
  const message = `list exceeds the ${String(CNI_PLUGINS_MAX)} element limit in length`;
  return invalid(`${fieldPath}.plugins`, message);
}

function parsePlugins(config: JsonObject, fieldPath: string): readonly Plugin[] | readonly Cause[] {
  if (config["type"] !== undefined) {
    return isPlugin(config)
      ? [config]
      : [invalid(`${fieldPath}.type`, "must be the file name of a plugin")];
  }
  const plugins = config["plugins"];
  if (!Array.isArray(plugins) || plugins.length === 0) {
    return [
      {
        reason: "FieldValueRequired",
        field: `${fieldPath}.plugins`,
        message: "neither type nor plugins names a plugin",
      },
    ];
  }
  const pluginList: readonly unknown[] = plugins;
  if (pluginList.every(isPlugin)) return pluginList;
  return collectProblems(pluginList.entries(), ([index, plugin]): readonly Cause[] =>
    isPlugin(plugin)
      ? []
      : [
          invalid(
            `${fieldPath}.plugins[${String(index)}].type`,
            "must be the file name of a plugin",
          ),
        ],
  );
}

function isCauses(list: readonly Plugin[] | readonly Cause[]): list is readonly Cause[] {
  return list.some((entry) => "reason" in entry && "field" in entry);
}

/**
 * Parses the configuration of a plugin or of a plugin list, and retains unknown keys of plugins. `defaultName` replaces a missing name.
 * `fieldPath` is the prefix of paths in error causes. Source: CNI SPEC 1.1 section 1; NPWG 1.3 section 3.4
 */
export function parseNetworkConfig(
  text: string,
  defaultName: string,
  fieldPath = DEFAULT_FIELD,
): ParsedNetworkConfig {
  if (text.length > CNI_CONFIG_LENGTH_MAX) {
    const limit = `exceeds the limit of ${String(CNI_CONFIG_LENGTH_MAX)} characters`;
    return { ok: false, isBeyondLimit: true, causes: [invalid(fieldPath, limit)] };
  }
  const config = parseJson(text);
  const beyondLimit = findLimitCause(config, fieldPath);
  if (beyondLimit !== undefined) return { ok: false, isBeyondLimit: true, causes: [beyondLimit] };
  if (!isJsonObject(config)) {
    return { ok: false, causes: [invalid(fieldPath, textProblem(text))] };
  }
  return parseObject(config, findName(config) ?? defaultName, fieldPath);
}

function parseObject(config: JsonObject, name: string, fieldPath: string): ParsedNetworkConfig {
  const plugins = parsePlugins(config, fieldPath);
  const cniVersion = chooseVersion(config);
  if (cniVersion !== undefined && !isCauses(plugins) && NETWORK_NAME.test(name)) {
    const disableCheck = isTrue(config["disableCheck"]) && { disableCheck: true };
    const disableGC = isTrue(config["disableGC"]) && { disableGC: true };
    return { ok: true, config: { cniVersion, name, ...disableCheck, ...disableGC, plugins } };
  }
  return {
    ok: false,
    causes: [
      ...(cniVersion === undefined
        ? [invalid(`${fieldPath}.cniVersion`, "is not a CNI version that is supported here")]
        : []),
      ...(NETWORK_NAME.test(name)
        ? []
        : [invalid(`${fieldPath}.name`, "is not a valid network name")]),
      ...(isCauses(plugins) ? plugins : []),
    ],
  };
}

/** Accepts `true` (CNI SPEC 1.1 section 1) and `"true"` (CNI SPEC 0.4), like libcni. */
function isTrue(value: unknown): boolean {
  return value === true || (typeof value === "string" && value.toLowerCase() === "true");
}

function findName(config: JsonObject): string | undefined {
  const name = config["name"];
  return typeof name === "string" && name !== "" ? name : undefined;
}

/** Merges `cniArgs` into `args.cni` of every plugin, and overrides existing values. Source: NPWG 1.3 section 4.1.2.1.6 */
export function withCniArgs(config: NetworkConfigList, cniArgs: JsonObject): NetworkConfigList {
  const plugins = config.plugins.map((plugin): Plugin => {
    const args = isJsonObject(plugin["args"]) ? plugin["args"] : {};
    const cni = isJsonObject(args["cni"]) ? args["cni"] : {};
    return { ...plugin, args: { ...args, cni: { ...cni, ...cniArgs } } };
  });
  return { ...config, plugins };
}

/** Sets the device ID in every plugin under two keys, because plugins read different keys. Source: Multus delegateAddDeviceID */
export function withDevice(config: NetworkConfigList, deviceID: string): NetworkConfigList {
  const plugins = config.plugins.map((plugin) => ({ ...plugin, deviceID, pciBusID: deviceID }));
  return { ...config, plugins };
}

export function findDeviceId({ plugins }: NetworkConfigList): string | undefined {
  const device = plugins[0]?.["deviceID"];
  return typeof device === "string" && device !== "" ? device : undefined;
}

/** Checks whether any plugin of the list declares the capability. Source: CNI SPEC 1.1 section 1, "capabilities" */
export function hasCapability(config: NetworkConfigList, capability: string): boolean {
  return config.plugins.some((plugin) => declares(plugin, capability));
}

function declares(plugin: Plugin, capability: string): boolean {
  const declared = plugin["capabilities"];
  return isJsonObject(declared) && declared[capability] === true;
}

/** Returns the JSON that a plugin reads from standard input. Source: CNI SPEC 1.1 section 3, "Deriving execution configuration" */
export function printPluginConfig(
  plugin: Plugin,
  list: Pick<NetworkConfigList, "name" | "cniVersion">,
  input: {
    readonly capabilityArgs?: JsonObject;
    readonly prevResult?: CniResult | undefined;
    readonly more?: JsonObject;
  },
): string {
  const runtimeConfig = Object.fromEntries(
    Object.entries(input.capabilityArgs ?? {}).filter(([capability]) =>
      declares(plugin, capability),
    ),
  );
  return JSON.stringify({
    ...plugin,
    name: list.name,
    cniVersion: list.cniVersion,
    ...(Object.keys(runtimeConfig).length === 0 ? {} : { runtimeConfig }),
    ...input.more,
    prevResult: input.prevResult,
  });
}

function isListOf(value: unknown, isItem: (item: JsonObject) => boolean): boolean {
  return (
    value === undefined ||
    (Array.isArray(value) && value.every((item) => isJsonObject(item) && isItem(item)))
  );
}

function isOptional(value: unknown, type: "string" | "number"): boolean {
  return value === undefined || typeof value === type;
}

function isModernResult(value: JsonObject): boolean {
  return (
    isListOf(
      value["interfaces"],
      (item) =>
        typeof item["name"] === "string" &&
        isOptional(item["mac"], "string") &&
        isOptional(item["mtu"], "number") &&
        isOptional(item["sandbox"], "string"),
    ) &&
    isListOf(
      value["ips"],
      (item) =>
        typeof item["address"] === "string" &&
        isOptional(item["interface"], "number") &&
        isOptional(item["gateway"], "string"),
    ) &&
    isListOf(
      value["routes"],
      (item) => isOptional(item["dst"], "string") && isOptional(item["gw"], "string"),
    )
  );
}

/** Converts a result of version 0.1 or 0.2 to the format of later versions. Returns a result of a later version unchanged. */
function fromLegacy(value: JsonObject): JsonObject {
  const families = [value["ip4"], value["ip6"]].filter(isJsonObject);
  if (families.length === 0) return value;
  return {
    ips: families.map((family) => ({
      address: family["ip"],
      ...(family["gateway"] === undefined ? {} : { gateway: family["gateway"] }),
    })),
    routes: families.flatMap((family): unknown[] =>
      Array.isArray(family["routes"]) ? family["routes"] : [],
    ),
    dns: value["dns"],
  };
}

function withoutNulls(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));
}

/** Parses a plugin's result. `version` applies if the result states no version. Returns undefined if the result is invalid. */
export function parseResult(text: string, version: string): CniResult | undefined {
  const value = parseJson(text);
  if (value === null) return { cniVersion: version };
  if (!isJsonObject(value)) return undefined;
  const { cniVersion: statedVersion } = value;
  const cniVersion =
    typeof statedVersion === "string" && statedVersion !== "" ? statedVersion : version;
  const result = withoutNulls({ ...fromLegacy(value), cniVersion });
  return isModernResult(result) ? (result as unknown as CniResult) : undefined;
}

type Address = NonNullable<CniResult["ips"]>[number];

function isV6({ address }: Pick<Address, "address">): boolean {
  return address.includes(":");
}

/** Converts the first address and the routes of one IP family to the format of versions 0.1 and 0.2. */
function toLegacyFamily(result: CniResult, wantsV6: boolean): object | undefined {
  const firstAddress = result.ips?.find((ip) => isV6(ip) === wantsV6);
  if (firstAddress === undefined) return undefined;
  const routes = result.routes?.filter(({ dst }) => dst.includes(":") === wantsV6);
  return {
    ip: firstAddress.address,
    ...(firstAddress.gateway === undefined ? {} : { gateway: firstAddress.gateway }),
    ...(routes === undefined || routes.length === 0 ? {} : { routes }),
  };
}

/** Converts the result to the format of `cniVersion`, which must be a known version. Source: CNI SPEC 0.2, 0.4, 1.1 "Result" */
export function printResult(result: CniResult, cniVersion: string): object {
  if (isAtLeast(cniVersion, "1.0.0")) return { ...result, cniVersion };
  if (isAtLeast(cniVersion, "0.3.0")) {
    const ips = result.ips?.map((ip) => ({ version: isV6(ip) ? "6" : "4", ...ip }));
    return { ...result, ...(ips === undefined ? {} : { ips }), cniVersion };
  }
  const [ip4, ip6] = [toLegacyFamily(result, false), toLegacyFamily(result, true)];
  return {
    cniVersion,
    ...(ip4 === undefined ? {} : { ip4 }),
    ...(ip6 === undefined ? {} : { ip6 }),
    dns: result.dns ?? {},
  };
}

const DEFAULT_DESTINATIONS = ["0.0.0.0/0", "::/0", ""];

type Nic = NonNullable<CniResult["interfaces"]>[number];

interface SandboxNic {
  /** Index in the result's interfaces. Undefined if the result has no interface in the sandbox. */
  readonly index: number | undefined;
  readonly nic: Partial<Nic>;
}

function listSandboxNics(result: CniResult): readonly SandboxNic[] {
  return (
    result.interfaces?.flatMap((nic, index) =>
      nic.sandbox === undefined || nic.sandbox === "" ? [] : [{ index, nic }],
    ) ?? []
  );
}

/** Finds the sandbox interface with the requested name, otherwise the first one. Returns an empty NIC if the sandbox has no interface. */
function findRequestedNic(sandboxNics: readonly SandboxNic[], interfaceName: string): SandboxNic {
  const requestedNic = sandboxNics.find(({ nic }) => nic.name === interfaceName);
  return requestedNic ?? sandboxNics[0] ?? { index: undefined, nic: {} };
}

const groupAddresses = memoize(({ ips = [] }: CniResult) => Map.groupBy(ips, (ip) => ip.interface));

function selectAddresses(
  result: CniResult,
  index: number | undefined,
  isRequested: boolean,
): readonly Address[] {
  if (!isRequested) return index === undefined ? [] : (groupAddresses(result).get(index) ?? []);
  const interfaceCount = result.interfaces?.length ?? 0;
  return (result.ips ?? []).filter(
    ({ interface: nicIndex = -1 }) =>
      nicIndex < 0 || nicIndex >= interfaceCount || nicIndex === index,
  );
}

function listAddresses(
  result: CniResult,
  index: number | undefined,
  isRequested: boolean,
): readonly string[] {
  return selectAddresses(result, index, isRequested).map(({ address }) =>
    address.replace(/\/.*/, ""),
  );
}

/** Lists the gateways of default routes. For a default route without a gateway, lists the gateways of all addresses. */
function listGateways(result: CniResult): readonly string[] {
  const routes = (result.routes ?? []).filter((route) =>
    // The cast is needed because plugins may omit `dst`, although it is not optional in the type of `route`.
    DEFAULT_DESTINATIONS.includes((route as { readonly dst?: string }).dst ?? ""),
  );
  const addressGateways = result.ips?.map(({ gateway }) => gateway) ?? [];
  const firstWithoutGateway = routes.findIndex(({ gw }) => gw === undefined);
  const gateways = routes.flatMap(({ gw }, index) => {
    if (gw !== undefined) return [gw];
    return index === firstWithoutGateway ? addressGateways : [];
  });
  return [...new Set(gateways.filter((gateway) => gateway !== undefined))];
}

/** Lists the gateways of default routes, then the gateways of the requested NIC's addresses, even if no route uses them. */
export function listResultGateways(result: CniResult, interfaceName: string): readonly string[] {
  const { index } = findRequestedNic(listSandboxNics(result), interfaceName);
  const ofAddresses = selectAddresses(result, index, true).flatMap(({ gateway }) => gateway ?? []);
  return [...new Set([...listGateways(result), ...ofAddresses])];
}

function readMacAndMtu({ mac = "", mtu = 0 }: Partial<Nic>): Pick<NetworkStatus, "mac" | "mtu"> {
  return { ...(mac === "" ? {} : { mac }), ...(mtu === 0 ? {} : { mtu }) };
}

interface AdditionalFacts {
  /** Gateways for the pod's `network-status`. They replace the gateways of the same IP version in the plugin's result. */
  readonly gateways?: readonly string[];
}

function listAllGateways(result: CniResult, replacements: readonly string[]): readonly string[] {
  const versions = new Set(replacements.map((gateway) => parseIp(gateway)?.version));
  const otherGateways = listGateways(result).filter(
    (otherGateway) => !versions.has(parseIp(otherGateway)?.version),
  );
  return [...replacements, ...otherGateways];
}

function buildElement(
  result: CniResult,
  { nic, index }: SandboxNic,
  {
    name,
    requestedName,
    additional: { gateways = [] },
  }: {
    readonly name: string;
    readonly requestedName: string | undefined;
    readonly additional: AdditionalFacts;
  },
): NetworkStatus {
  const isRequested = requestedName !== undefined;
  const ips = listAddresses(result, index, isRequested);
  const gateway = isRequested ? listAllGateways(result, gateways) : [];
  return {
    name,
    interface: requestedName ?? nic.name ?? "",
    ...(ips.length === 0 ? {} : { ips }),
    ...readMacAndMtu(nic),
    dns: result.dns ?? {},
    ...(gateway.length === 0 ? {} : { gateway }),
  };
}

/** First CNI version whose results contain `interfaces`. Source: CNI SPEC 0.3.0 */
const INTERFACES_SINCE = "0.3.0";

/**
 * Checks whether the plugins reported no NIC and no address, which is normal for KubeVirt's network binding plugin
 * passt. Returns false for versions before 0.3.0: their results list no NICs even if the plugins created some.
 */
function hasNoInterface({ cniVersion, interfaces = [], ips = [] }: CniResult): boolean {
  return interfaces.length === 0 && ips.length === 0 && isAtLeast(cniVersion, INTERFACES_SINCE);
}

function buildElements(
  result: CniResult,
  { name, interfaceName }: { readonly name: string; readonly interfaceName: string },
  additional: AdditionalFacts,
): readonly NetworkStatus[] {
  const sandboxNics = listSandboxNics(result);
  const requestedNic = findRequestedNic(sandboxNics, interfaceName);
  return (sandboxNics.length === 0 ? [requestedNic] : sandboxNics).map((sandboxNic) =>
    buildElement(result, sandboxNic, {
      name,
      requestedName: sandboxNic === requestedNic ? interfaceName : undefined,
      additional,
    }),
  );
}

/**
 * Builds the `network-status` elements of an attachment, one per NIC in the sandbox. `name` is NAMESPACE/NAME of the
 * network, `interfaceName` is CNI_IFNAME. Like Multus, returns no element for a result without interfaces and addresses.
 * Source: NPWG 1.3 section 5.3; KubeVirt PodHasOrdinalInterfaceName
 */
export function buildNetworkStatuses(
  result: CniResult,
  name: string,
  interfaceName: string,
  additional: AdditionalFacts = {},
): readonly NetworkStatus[] {
  return hasNoInterface(result) ? [] : buildElements(result, { name, interfaceName }, additional);
}

export function findNetworkStatus(
  result: CniResult,
  name: string,
  interfaceName: string,
): NetworkStatus {
  const requestedNic = findRequestedNic(listSandboxNics(result), interfaceName);
  return buildElement(result, requestedNic, { name, requestedName: interfaceName, additional: {} });
}

/**
 * Returns the name of the NIC to which the first address with a gateway belongs, or `interfaceName` if no sandbox NIC has such an address.
 * Source: NPWG 1.3 5.3.5; NPWG client, CreateNetworkStatuses
 */
function findDefaultNic(result: CniResult, interfaceName: string): string | undefined {
  const gatewayAddress = result.ips?.find(
    ({ gateway, interface: nicIndex }) => gateway !== undefined && nicIndex !== undefined,
  );
  const defaultNic = listSandboxNics(result).find(
    ({ index }) => index === gatewayAddress?.interface,
  );
  return defaultNic === undefined ? interfaceName : defaultNic.nic.name;
}

/** Builds a default network's `network-status` elements. Sets `default` on the default NIC's element, or else on the first element. */
export function buildDefaultNetworkStatuses(
  result: CniResult,
  name: string,
  interfaceName: string,
): readonly NetworkStatus[] {
  const entries = buildElements(result, { name, interfaceName }, {});
  const nic = findDefaultNic(result, interfaceName);
  const defaultIndex = Math.max(
    0,
    entries.findIndex((entry) => entry.interface === nic),
  );
  return entries.map((entry, index) =>
    index === defaultIndex ? { ...entry, default: true } : entry,
  );
}
