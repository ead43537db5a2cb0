// SPDX-License-Identifier: Apache-2.0
// Asks the plugins of a list how their attachments are, whether they can make more, and has them free what nobody uses.
// Source: CNI SPEC 1.1 section 2, "CHECK", "STATUS", "GC".
import { isJsonObject } from "@patchbay/api";
import type {
  AttachmentName,
  AttachmentRequest,
  CniResult,
  NetworkConfigList,
} from "@patchbay/core/ports";
import { envOf, invokePlugin, type PluginHost } from "./invoke-plugin.ts";
import { printPluginConfig } from "./network-config.ts";
import { findSupported, type KnownVersions } from "./spoken-versions.ts";
import { isAtLeast } from "./version.ts";

/** A plugin only looks. */
const LOOK_TIMEOUT_MS = 10_000;
/** As DEL, of which GC is many. */
const GC_TIMEOUT_MS = 30_000;
/** The first version with STATUS and GC. */
const VERSION = "1.1.0";

type Plugin = NetworkConfigList["plugins"][number];

/** The plugin bridge asks for an IPAM plugin even where the configuration has none. Source: plugins 1.1.1, bridge cmdCheck. */
function isFaulty({ type, ipam }: Plugin): boolean {
  return type === "bridge" && !(isJsonObject(ipam) && typeof ipam["type"] === "string");
}

/**
 * The result of ADD as the plugin can hold the node to it. A bridge without an address of its own has that of a port, which
 * changes as others' ports come and go, and the plugin bridge takes that for a fault. Source: plugins 1.1.1, bridge
 * validateCniBrInterface.
 */
function resultFor({ type }: Plugin, result: CniResult): CniResult {
  if (type !== "bridge" || result.interfaces === undefined) return result;
  const [bridge, ...others] = result.interfaces;
  if (bridge === undefined || (bridge.sandbox ?? "") !== "") return result;
  return { ...result, interfaces: [{ ...bridge, mac: "" }, ...others] };
}

/** See {@link Cni.check}. */
export async function checkAll(
  host: PluginHost,
  { request, prevResult }: { readonly request: AttachmentRequest; readonly prevResult: CniResult },
): Promise<boolean> {
  const { config, capabilityArgs } = request;
  const { cniVersion } = prevResult;
  if (config.disableCheck === true || !isAtLeast(cniVersion, "0.4.0")) return false;
  const asked = config.plugins.filter((plugin) => !isFaulty(plugin));
  for (const plugin of asked) {
    const list = { name: config.name, cniVersion };
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "CHECK",
      stdin: printPluginConfig(plugin, list, {
        capabilityArgs,
        prevResult: resultFor(plugin, prevResult),
      }),
      env: envOf(request),
      timeoutMs: LOOK_TIMEOUT_MS,
    });
  }
  return asked.length > 0;
}

/** Those of the list that can be asked for more than attachments. */
async function pluginsOf(
  host: PluginHost,
  known: KnownVersions,
  { cniVersion, plugins }: NetworkConfigList,
): Promise<readonly Plugin[]> {
  if (!isAtLeast(cniVersion, VERSION)) return [];
  const able: Plugin[] = [];
  for (const plugin of plugins) {
    const versions = await findSupported(host, known, plugin.type);
    if (versions?.includes(VERSION) === true) able.push(plugin);
  }
  return able;
}

/** See {@link Cni.status}. */
export async function askStatus(
  host: PluginHost,
  known: KnownVersions,
  config: NetworkConfigList,
): Promise<boolean> {
  const able = await pluginsOf(host, known, config);
  for (const plugin of able) {
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "STATUS",
      stdin: printPluginConfig(plugin, { name: config.name, cniVersion: VERSION }, {}),
      env: {},
      timeoutMs: LOOK_TIMEOUT_MS,
    });
  }
  return able.length > 0;
}

/** See {@link Cni.gc}. */
export async function collectGarbage(
  host: PluginHost,
  known: KnownVersions,
  what: {
    readonly config: NetworkConfigList;
    readonly listValid: () => Promise<readonly AttachmentName[]>;
  },
): Promise<boolean> {
  const { config } = what;
  const able = config.disableGC === true ? [] : await pluginsOf(host, known, config);
  if (able.length === 0) return false;
  const valid = (await what.listValid()).map(({ containerId, interfaceName }) => ({
    containerID: containerId,
    ifname: interfaceName,
  }));
  // libcni says it under both names: the specification has had either.
  const more = { "cni.dev/valid-attachments": valid, "cni.dev/attachments": valid };
  const failures: unknown[] = [];
  for (const plugin of able) {
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "GC",
      stdin: printPluginConfig(plugin, { name: config.name, cniVersion: VERSION }, { more }),
      env: {},
      timeoutMs: GC_TIMEOUT_MS,
    }).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
  return true;
}
