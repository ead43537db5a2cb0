// SPDX-License-Identifier: Apache-2.0
import { isJsonObject, parseJson, type JsonObject, type Cause } from "@patchbay/api";
import { messageOf } from "@patchbay/base";
import type { CniResult, NetworkConfigList } from "@patchbay/core/interfaces";
import { findNewestVersion, VERSION_WHEN_ABSENT } from "./version.ts";

export type ParsedNetworkConfig =
  | { readonly ok: true; readonly config: NetworkConfigList }
  | { readonly ok: false; readonly causes: readonly Cause[] };

/** Field of a NetworkAttachmentDefinition, the default prefix of causes. */
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

/** Whether the text is a single path component. */
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
 * Parses a plugin or a list; a missing name becomes `defaultName`. `at`: field of the text. Retains unknown keys of
 * plugins. Source: CNI SPEC 1.1 section 1; NPWG 1.3 section 3.4
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

/** Source: CNI SPEC 1.1 section 1, where it is a string, and libcni, which accepts both */
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

/** Whether any plugin of the list declares the capability. Source: CNI SPEC 1.1 section 1, "capabilities" */
export function hasCapability(config: NetworkConfigList, capability: string): boolean {
  return config.plugins.some((plugin) => declares(plugin, capability));
}

function declares(plugin: Plugin, capability: string): boolean {
  const declared = plugin["capabilities"];
  return isJsonObject(declared) && declared[capability] === true;
}

/** `prevResult`: for DEL the result of ADD. Source: CNI SPEC 1.1 section 3, "Deriving execution configuration" */
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
