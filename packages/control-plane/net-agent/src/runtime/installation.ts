// SPDX-License-Identifier: Apache-2.0
// Installs patchbay-cni as the container runtime's CNI plugin, and removes it.
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { AppError, type Logger } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { OWN_PLUGIN } from "../reconcilers/pod/attachment/policy.ts";

export interface PluginPaths {
  readonly binDir: string;
  /** The runtime's directory of network configurations. The runtime uses the first file in the order of names. */
  readonly configDir: string;
  readonly socketPath: string;
}

export interface InstallDeps {
  readonly files: Files;
  readonly log: Logger;
  readonly copyProgram: (path: string) => Promise<void>;
}

const CONFIG_FILE = "00-patchbay.conflist";
/** Plugins that attach the networks of a pod's annotation. Patchbay, which does the same, must not run beside such a plugin. */
const META_PLUGINS: readonly string[] = ["multus", "multus-shim"];
/** Capabilities for which runtimes pass values to the plugin of the default network. Source: containerd go-cni; CNI CONVENTIONS. */
const CAPABILITIES = {
  portMappings: true,
  bandwidth: true,
  dns: true,
  ipRanges: true,
  cgroupPath: true,
  "io.kubernetes.cri.pod-annotations": true,
};

/** Formats the configuration. With `cniVersions`, a runtime that supports CNI 1.1 also calls STATUS and GC. */
function formatConfig({ socketPath }: PluginPaths): string {
  const plugin = { type: OWN_PLUGIN, socket: socketPath, capabilities: CAPABILITIES };
  const list = {
    cniVersion: "1.0.0",
    cniVersions: ["1.0.0", "1.1.0"],
    name: "patchbay",
    plugins: [plugin],
  };
  return `${JSON.stringify(list, undefined, 2)}\n`;
}

/** Returns the plugin types in a configuration; an empty list if the configuration is invalid. */
function readTypes(text: string | undefined): readonly unknown[] {
  const config = parseJson(text);
  if (!isJsonObject(config)) return [];
  const plugins: readonly unknown[] = Array.isArray(config["plugins"]) ? config["plugins"] : [];
  return [config, ...plugins].map((entry) => (isJsonObject(entry) ? entry["type"] : undefined));
}

async function assertNoMetaPlugin(
  { configDir }: PluginPaths,
  { files, log }: InstallDeps,
): Promise<void> {
  for (const name of await files.list(configDir)) {
    if (!/\.(?:conf|conflist|json)$/.test(name)) continue;
    const path = `${configDir}/${name}`;
    const types = readTypes(await files.readText(path));
    const plugin = META_PLUGINS.find((meta) => types.includes(meta));
    if (plugin !== undefined) throw new AppError("CNI_RUNTIME_TAKEN", { path, plugin });
    if (name < CONFIG_FILE && !types.includes(OWN_PLUGIN)) {
      log.warn("the container runtime uses another configuration first", { path });
    }
  }
}

/**
 * Installs the program, and then the configuration, because the runtime uses a new configuration at once.
 * @throws AppError with OS_FILE_FAILED, or with CNI_RUNTIME_TAKEN if a configuration in the directory calls Multus, which also attaches the
 * networks that pod annotations request
 */
export async function installPlugin(paths: PluginPaths, deps: InstallDeps): Promise<void> {
  const { binDir, configDir } = paths;
  await assertNoMetaPlugin(paths, deps);
  await deps.copyProgram(`${binDir}/${OWN_PLUGIN}`);
  const path = `${configDir}/${CONFIG_FILE}`;
  const text = formatConfig(paths);
  if (text === (await deps.files.readText(path))) return;
  await deps.files.writeAtomic(path, text);
  deps.log.info("installed patchbay-cni for the container runtime", { path });
}

/** Removes the configuration, and then the program, because the runtime would otherwise call a missing program. */
export async function removePlugin(paths: PluginPaths, deps: InstallDeps): Promise<void> {
  const { binDir, configDir } = paths;
  await deps.files.remove(`${configDir}/${CONFIG_FILE}`);
  await deps.files.remove(`${binDir}/${OWN_PLUGIN}`);
  deps.log.info("removed patchbay-cni from the container runtime");
}
