// SPDX-License-Identifier: Apache-2.0
// Reads the CNI configuration of a NetworkAttachmentDefinition or of a file: one plugin or a list.
import { isJsonObject, parseJson, type JsonObject, type Cause } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import type { CniResult, NetworkConfigList } from "@patchbay/core/ports";
import { findNewestVersion, VERSION_WHEN_ABSENT } from "./version.ts";

/** A configuration, or all that is wrong with it. */
export type ParsedNetworkConfig =
  | { readonly ok: true; readonly config: NetworkConfigList }
  | { readonly ok: false; readonly causes: readonly Cause[] };

/** Where the text of a NetworkAttachmentDefinition is; the prefix of every cause's field. */
const FIELD = "spec.config";
/** Name of a network. Source: CNI pkg/utils ValidateNetworkName. */
const NETWORK_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

type Plugin = NetworkConfigList["plugins"][number];

function invalid(field: string, message: string): Cause {
  return { reason: "FieldValueInvalid", field, message };
}

function isPlugin(value: unknown): value is Plugin {
  return isJsonObject(value) && typeof value["type"] === "string" && isFileName(value["type"]);
}

/** Whether the text names a file in a directory, and nothing outside it. */
export function isFileName(text: string): boolean {
  return text !== "" && text !== "." && text !== ".." && !/[/\0]/.test(text);
}

/** Why the text is no configuration at all, in one line for whoever wrote it. */
export function textProblem(text: string): string {
  if (text.trim() === "") return "is empty; it must hold a CNI configuration";
  try {
    JSON.parse(text);
    return "is not a JSON object";
  } catch (error) {
    return `is not a JSON object: ${messageOf(error).replace(/\p{Cc}+/gu, " ")}`;
  }
}

function versionOf(config: JsonObject): string | undefined {
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
 * Reads CNI configuration, a single plugin or a list; a missing name becomes `defaultName`. `at`: where the text is.
 * Every key of a plugin is kept. Source: CNI SPEC 1.1 section 1; NPWG 1.3 section 3.4.
 */
export function parseNetworkConfig(
  text: string,
  defaultName: string,
  at = FIELD,
): ParsedNetworkConfig {
  const config = parseJson(text);
  if (!isJsonObject(config)) {
    return { ok: false, causes: [invalid(at, textProblem(text))] };
  }
  return parseObject(config, nameOf(config) ?? defaultName, at);
}

function parseObject(config: JsonObject, name: string, at: string): ParsedNetworkConfig {
  const plugins = parsePlugins(config, at);
  const cniVersion = versionOf(config);
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

/** Source: CNI SPEC 1.1 section 1, where it is a text, and libcni, which takes both. */
function isTrue(value: unknown): boolean {
  return value === true || (typeof value === "string" && value.toLowerCase() === "true");
}

function nameOf(config: JsonObject): string | undefined {
  const name = config["name"];
  return typeof name === "string" && name !== "" ? name : undefined;
}

/** The configuration with `cniArgs` merged into `args.cni` of every plugin; the request wins. Source: NPWG 1.3 section 4.1.2.1.6. */
export function withCniArgs(config: NetworkConfigList, cniArgs: JsonObject): NetworkConfigList {
  const plugins = config.plugins.map((plugin): Plugin => {
    const args = isJsonObject(plugin["args"]) ? plugin["args"] : {};
    const cni = isJsonObject(args["cni"]) ? args["cni"] : {};
    return { ...plugin, args: { ...args, cni: { ...cni, ...cniArgs } } };
  });
  return { ...config, plugins };
}

/** The configuration that gives every plugin a device, under both names that plugins know. Source: Multus delegateAddDeviceID. */
export function withDevice(config: NetworkConfigList, deviceID: string): NetworkConfigList {
  const plugins = config.plugins.map((plugin) => ({ ...plugin, deviceID, pciBusID: deviceID }));
  return { ...config, plugins };
}

/** The device that a configuration gives to its plugins; undefined: none. */
export function deviceIn({ plugins }: NetworkConfigList): string | undefined {
  const device = plugins[0]?.["deviceID"];
  return typeof device === "string" && device !== "" ? device : undefined;
}

/** Whether a plugin of the list declares the capability. Source: CNI SPEC 1.1 section 1, "capabilities". */
export function hasCapability(config: NetworkConfigList, capability: string): boolean {
  return config.plugins.some((plugin) => declares(plugin, capability));
}

function declares(plugin: Plugin, capability: string): boolean {
  const declared = plugin["capabilities"];
  return isJsonObject(declared) && declared[capability] === true;
}

/** What one plugin gets on standard input; `prevResult`: what the plugin before it gave, at DEL the result of ADD. Source: CNI SPEC 1.1 section 3, "Deriving execution configuration". */
export function printPluginConfig(
  plugin: Plugin,
  list: Pick<NetworkConfigList, "name" | "cniVersion">,
  extra: {
    readonly capabilityArgs?: JsonObject;
    readonly prevResult?: CniResult | undefined;
    /** More members, by name. */
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
    // JSON leaves out what is undefined.
    prevResult: extra.prevResult,
  });
}
