// SPDX-License-Identifier: Apache-2.0
// CHECK, STATUS and GC of the plugins of a list. Source: CNI SPEC 1.1 section 2
import { isJsonObject } from "@patchbay/api";
import type {
  AttachmentName,
  AttachmentRequest,
  CniResult,
  NetworkConfigList,
} from "@patchbay/core/interfaces";
import {
  buildEnvironment,
  querySupportedVersions,
  invokePlugin,
  type KnownVersions,
  type PluginHost,
} from "./invoke-plugin.ts";
import { printPluginConfig } from "./network-config.ts";
import { isAtLeast } from "./version.ts";

/** Deadline of read-only operations. */
const READ_TIMEOUT_MS = 10_000;
/** As for DEL, because GC repeats it. */
const GC_TIMEOUT_MS = 30_000;
/** The first version with STATUS and GC. */
const STATUS_AND_GC_VERSION = "1.1.0";

type Plugin = NetworkConfigList["plugins"][number];

/** The plugin bridge requires an IPAM plugin even if the configuration has none. Source: plugins 1.1.1, bridge cmdCheck */
function requiresMissingIpam({ type, ipam }: Plugin): boolean {
  return type === "bridge" && !(isJsonObject(ipam) && typeof ipam["type"] === "string");
}

/**
 * Removes the MAC of a bridge from the result of ADD. A bridge without a MAC of its own uses that of a port, which
 * changes, and the plugin bridge reports that as an error. Source: plugins 1.1.1, bridge validateCniBrInterface
 */
function withoutBridgeMac({ type }: Plugin, result: CniResult): CniResult {
  if (type !== "bridge" || result.interfaces === undefined) return result;
  const [bridge, ...otherNics] = result.interfaces;
  if (bridge === undefined || (bridge.sandbox ?? "") !== "") return result;
  return { ...result, interfaces: [{ ...bridge, mac: "" }, ...otherNics] };
}

export async function checkAll(
  host: PluginHost,
  { request, prevResult }: { readonly request: AttachmentRequest; readonly prevResult: CniResult },
): Promise<boolean> {
  const { config, capabilityArgs } = request;
  const { cniVersion } = prevResult;
  if (config.disableCheck === true || !isAtLeast(cniVersion, "0.4.0")) return false;
  const checked = config.plugins.filter((plugin) => !requiresMissingIpam(plugin));
  for (const plugin of checked) {
    const list = { name: config.name, cniVersion };
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "CHECK",
      stdin: printPluginConfig(plugin, list, {
        capabilityArgs,
        prevResult: withoutBridgeMac(plugin, prevResult),
      }),
      env: buildEnvironment(request),
      timeoutMs: READ_TIMEOUT_MS,
    });
  }
  return checked.length > 0;
}

/** Plugins that support STATUS and GC. */
async function listSupporting(
  host: PluginHost,
  known: KnownVersions,
  { cniVersion, plugins }: NetworkConfigList,
): Promise<readonly Plugin[]> {
  if (!isAtLeast(cniVersion, STATUS_AND_GC_VERSION)) return [];
  const able: Plugin[] = [];
  for (const plugin of plugins) {
    const versions = await querySupportedVersions(host, known, plugin.type);
    if (versions?.includes(STATUS_AND_GC_VERSION) === true) able.push(plugin);
  }
  return able;
}

export async function checkStatus(
  host: PluginHost,
  known: KnownVersions,
  config: NetworkConfigList,
): Promise<boolean> {
  const able = await listSupporting(host, known, config);
  for (const plugin of able) {
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "STATUS",
      stdin: printPluginConfig(
        plugin,
        { name: config.name, cniVersion: STATUS_AND_GC_VERSION },
        {},
      ),
      env: {},
      timeoutMs: READ_TIMEOUT_MS,
    });
  }
  return able.length > 0;
}

export async function collectGarbage(
  host: PluginHost,
  known: KnownVersions,
  what: {
    readonly config: NetworkConfigList;
    readonly listValid: () => Promise<readonly AttachmentName[]>;
  },
): Promise<boolean> {
  const { config } = what;
  const able = config.disableGC === true ? [] : await listSupporting(host, known, config);
  if (able.length === 0) return false;
  const valid = (await what.listValid()).map(({ containerId, interfaceName }) => ({
    containerID: containerId,
    ifname: interfaceName,
  }));
  // libcni sends both names, because the specification has used either.
  const more = { "cni.dev/valid-attachments": valid, "cni.dev/attachments": valid };
  const failures: unknown[] = [];
  for (const plugin of able) {
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "GC",
      stdin: printPluginConfig(
        plugin,
        { name: config.name, cniVersion: STATUS_AND_GC_VERSION },
        { more },
      ),
      env: {},
      timeoutMs: GC_TIMEOUT_MS,
    }).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
  return true;
}
