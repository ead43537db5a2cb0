// SPDX-License-Identifier: Apache-2.0
// Formats of CNI and of the annotation `network-status`: network configurations, and results of all versions.
// Source: CNI SPEC 1.1 sections 1 and 5; NPWG 1.3 section 5
import type { NetworkStatus } from "@patchbay/api/annotations";
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import type { Cause } from "@patchbay/api/kubernetes";
import { parseIp } from "@patchbay/api/values";
import { messageOf } from "@patchbay/base";
import type { CniResult, NetworkConfigList } from "@patchbay/core/interfaces";
import { findNewestVersion, VERSION_WHEN_ABSENT, isAtLeast } from "./version.ts";

type ParsedNetworkConfig =
  | { readonly ok: true; readonly config: NetworkConfigList }
  | { readonly ok: false; readonly causes: readonly Cause[] };

/** Field of a NetworkAttachmentDefinition, by default the prefix of fields in causes. */
const DEFAULT_FIELD = "spec.config";
/** Pattern of network names. Source: CNI pkg/utils ValidateNetworkName */
const NETWORK_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

type Plugin = NetworkConfigList["plugins"][number];

function invalid(field: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message };
}

function isPlugin(value: unknown): value is Plugin {
  return isJsonObject(value) && typeof value["type"] === "string" && isFileName(value["type"]);
}

/** Checks whether the text is a single path component. */
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
  const one = config["cniVersion"];
  const many = config["cniVersions"];
  const offered = [
    ...(typeof one === "string" && one !== "" ? [one] : []),
    ...(Array.isArray(many) ? many.filter((v): v is string => typeof v === "string") : []),
  ];
  return offered.length === 0 ? VERSION_WHEN_ABSENT : findNewestVersion(offered);
}

function parsePlugins(config: JsonObject, at: string): readonly Plugin[] | readonly Cause[] {
  if (config["type"] !== undefined) {
    return isPlugin(config)
      ? [config]
      : [invalid(`${at}.type`, "must be the file name of a plugin")];
  }
  const plugins = config["plugins"];
  if (!Array.isArray(plugins) || plugins.length === 0) {
    return [
      {
        reason: "FieldValueRequired",
        field: `${at}.plugins`,
        message: "neither type nor plugins names a plugin",
      },
    ];
  }
  const list: readonly unknown[] = plugins;
  if (list.every(isPlugin)) return list;
  return list.flatMap((plugin, index) =>
    isPlugin(plugin)
      ? []
      : [invalid(`${at}.plugins[${String(index)}].type`, "must be the file name of a plugin")],
  );
}

function isCauses(list: readonly Plugin[] | readonly Cause[]): list is readonly Cause[] {
  return list.some((entry) => "reason" in entry && "field" in entry);
}

/**
 * Parses the configuration of a plugin or a list; a missing name becomes `defaultName`. `at` is the path of the text's field,
 * for errors. Retains unknown keys
 * of plugins. Source: CNI SPEC 1.1 section 1; NPWG 1.3 section 3.4
 */
export function parseNetworkConfig(
  text: string,
  defaultName: string,
  at = DEFAULT_FIELD,
): ParsedNetworkConfig {
  const config = parseJson(text);
  if (!isJsonObject(config)) {
    return { ok: false, causes: [invalid(at, textProblem(text))] };
  }
  return parseObject(config, findName(config) ?? defaultName, at);
}

function parseObject(config: JsonObject, name: string, at: string): ParsedNetworkConfig {
  const plugins = parsePlugins(config, at);
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
        ? [invalid(`${at}.cniVersion`, "is not a CNI version that is supported here")]
        : []),
      ...(NETWORK_NAME.test(name) ? [] : [invalid(`${at}.name`, "is not a valid network name")]),
      ...(isCauses(plugins) ? plugins : []),
    ],
  };
}

/** Accepts booleans and strings, like libcni. Source: CNI SPEC 1.1 section 1, which defines a string */
function isTrue(value: unknown): boolean {
  return value === true || (typeof value === "string" && value.toLowerCase() === "true");
}

function findName(config: JsonObject): string | undefined {
  const name = config["name"];
  return typeof name === "string" && name !== "" ? name : undefined;
}

/** Merges `cniArgs` into `args.cni` of every plugin; the request wins. Source: NPWG 1.3 section 4.1.2.1.6 */
export function withCniArgs(config: NetworkConfigList, cniArgs: JsonObject): NetworkConfigList {
  const plugins = config.plugins.map((plugin): Plugin => {
    const args = isJsonObject(plugin["args"]) ? plugin["args"] : {};
    const cni = isJsonObject(args["cni"]) ? args["cni"] : {};
    return { ...plugin, args: { ...args, cni: { ...cni, ...cniArgs } } };
  });
  return { ...config, plugins };
}

/** Adds the device under both names that plugins use. Source: Multus delegateAddDeviceID */
export function withDevice(config: NetworkConfigList, deviceID: string): NetworkConfigList {
  const plugins = config.plugins.map((plugin) => ({ ...plugin, deviceID, pciBusID: deviceID }));
  return { ...config, plugins };
}

export function deviceIn({ plugins }: NetworkConfigList): string | undefined {
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

/** Prints a plugin's input. Source: CNI SPEC 1.1 section 3, "Deriving execution configuration" */
export function printPluginConfig(
  plugin: Plugin,
  list: Pick<NetworkConfigList, "name" | "cniVersion">,
  extra: {
    readonly capabilityArgs?: JsonObject;
    readonly prevResult?: CniResult | undefined;
    readonly more?: JsonObject;
  },
): string {
  const runtimeConfig = Object.fromEntries(
    Object.entries(extra.capabilityArgs ?? {}).filter(([capability]) =>
      declares(plugin, capability),
    ),
  );
  return JSON.stringify({
    ...plugin,
    name: list.name,
    cniVersion: list.cniVersion,
    ...(Object.keys(runtimeConfig).length === 0 ? {} : { runtimeConfig }),
    ...extra.more,
    prevResult: extra.prevResult,
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

/** Converts a result of version 0.1 or 0.2, which has one address per family and no interfaces. */
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

/** Parses a result, by default of `version`. Retains unknown fields for the next plugin. Undefined if it is invalid. */
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

/** Converts addresses and routes of one IP family for versions 0.1 and 0.2, which have one address per family. */
function toLegacyFamily(result: CniResult, wantsV6: boolean): object | undefined {
  const found = result.ips?.find((ip) => isV6(ip) === wantsV6);
  if (found === undefined) return undefined;
  const routes = result.routes?.filter(({ dst }) => dst.includes(":") === wantsV6);
  return {
    ip: found.address,
    ...(found.gateway === undefined ? {} : { gateway: found.gateway }),
    ...(routes === undefined || routes.length === 0 ? {} : { routes }),
  };
}

/** Prints the result in the format of that version; both versions must be known. Source: CNI SPEC 0.2, 0.4, 1.1 "Result" */
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
  /** Index in the result's interfaces; undefined if the result has none. */
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

/** Finds the interface with the requested name, or the first one if the result has none with that name. */
function findRequestedNic(places: readonly SandboxNic[], interfaceName: string): SandboxNic {
  const named = places.find(({ nic }) => nic.name === interfaceName);
  return named ?? places[0] ?? { index: undefined, nic: {} };
}

/** Lists the addresses of an interface. Addresses without a valid interface belong to the requested one. */
function listAddresses(
  result: CniResult,
  index: number | undefined,
  isRequested: boolean,
): readonly string[] {
  const known = result.interfaces?.length ?? 0;
  return (result.ips ?? [])
    .filter(({ interface: owner }) =>
      owner === undefined || owner < 0 || owner >= known ? isRequested : owner === index,
    )
    .map(({ address }) => address.replace(/\/.*/, ""));
}

/** Lists gateways of default routes. A default route without one uses the gateways of the addresses. */
function listGateways(result: CniResult): readonly string[] {
  const routes = (result.routes ?? []).filter((route) =>
    // Plugins may omit `dst`, which the type does not allow.
    DEFAULT_DESTINATIONS.includes((route as { readonly dst?: string }).dst ?? ""),
  );
  const addressGateways = result.ips?.map(({ gateway }) => gateway) ?? [];
  const gateways = routes.flatMap(({ gw }) => (gw === undefined ? addressGateways : [gw]));
  return [...new Set(gateways.filter((gateway) => gateway !== undefined))];
}

function readHardware({ mac = "", mtu = 0 }: Partial<Nic>): Pick<NetworkStatus, "mac" | "mtu"> {
  return { ...(mac === "" ? {} : { mac }), ...(mtu === 0 ? {} : { mtu }) };
}

interface AdditionalFacts {
  /** Gateways of default routes that were set instead of the network's own. */
  readonly gateways?: readonly string[];
}

/** Lists the gateways that replaced the network's own, and the result's gateways for other IP versions. */
function allGateways(result: CniResult, set: readonly string[]): readonly string[] {
  const versions = new Set(set.map((gateway) => parseIp(gateway)?.version));
  const otherGateways = listGateways(result).filter(
    (each) => !versions.has(parseIp(each)?.version),
  );
  return [...set, ...otherGateways];
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
  const gateway = isRequested ? allGateways(result, gateways) : [];
  return {
    name,
    interface: requestedName ?? nic.name ?? "",
    ...(ips.length === 0 ? {} : { ips }),
    ...readHardware(nic),
    dns: result.dns ?? {},
    ...(gateway.length === 0 ? {} : { gateway }),
  };
}

/** First version whose results name interfaces. Source: CNI SPEC 0.3.0 */
const INTERFACES_SINCE = "0.3.0";

/**
 * Checks whether the plugins created no NIC and assigned no address, like KubeVirt's network binding plugin passt.
 * Results before 0.3.0 cannot name interfaces.
 */
function hasNoInterface({ cniVersion, interfaces = [], ips = [] }: CniResult): boolean {
  return interfaces.length === 0 && ips.length === 0 && isAtLeast(cniVersion, INTERFACES_SINCE);
}

function buildElements(
  result: CniResult,
  { name, interfaceName }: { readonly name: string; readonly interfaceName: string },
  additional: AdditionalFacts,
): readonly NetworkStatus[] {
  const places = listSandboxNics(result);
  const own = findRequestedNic(places, interfaceName);
  return (places.length === 0 ? [own] : places).map((place) =>
    buildElement(result, place, {
      name,
      requestedName: place === own ? interfaceName : undefined,
      additional,
    }),
  );
}

/**
 * Builds the elements of one attachment, one per NIC in the sandbox. `name` is NAMESPACE/NAME of the network,
 * `interfaceName` is CNI_IFNAME. Addresses have no prefix length; host interfaces are omitted. Like Multus, omits a
 * result without interfaces, because KubeVirt derives its naming scheme for all NICs from the names in the status.
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
  const own = findRequestedNic(listSandboxNics(result), interfaceName);
  return buildElement(result, own, { name, requestedName: interfaceName, additional: {} });
}

/** Finds the NIC with a gateway, otherwise the first. Source: NPWG 1.3 section 5.3.5; its client, CreateNetworkStatuses */
function findDefaultNic(result: CniResult, interfaceName: string): string | undefined {
  const withGateway = result.ips?.find(
    ({ gateway, interface: owner }) => gateway !== undefined && owner !== undefined,
  );
  const place = listSandboxNics(result).find(({ index }) => index === withGateway?.interface);
  return place === undefined ? interfaceName : place.nic.name;
}

/** Builds the elements of a pod's default network, one of which is marked as default. */
export function buildDefaultNetworkStatuses(
  result: CniResult,
  name: string,
  interfaceName: string,
): readonly NetworkStatus[] {
  const entries = buildElements(result, { name, interfaceName }, {});
  const nic = findDefaultNic(result, interfaceName);
  const at = Math.max(
    0,
    entries.findIndex((entry) => entry.interface === nic),
  );
  return entries.map((entry, index) => (index === at ? { ...entry, default: true } : entry));
}
