// SPDX-License-Identifier: Apache-2.0
// How does the container runtime of this node come to call our plugin, and how does it stop to?
import { isJsonObject, parseJson } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { Files, Logger } from "@patchbay/core/ports";
import { OWN_PLUGIN } from "../reconcilers/pod/attachment/policy.ts";

/** Where it goes on this node. */
export interface PluginPlaces {
  /** The runtime's directory of plugins. */
  readonly binDir: string;
  /** The runtime's directory of network configurations, of which it takes the first. */
  readonly configDir: string;
  readonly socketPath: string;
}

/** What installs it. */
export interface InstallDeps {
  readonly files: Files;
  readonly log: Logger;
  /** Puts our program at that path. */
  readonly putProgram: (path: string) => Promise<void>;
}

const CONFIG_FILE = "00-patchbay.conflist";
/** They attach what annotations ask for, too: every pod would get its networks twice. Source: Multus, cmd. */
const META_PLUGINS: readonly string[] = ["multus", "multus-shim"];
/** What kubelets give along for the pods' own network. Source: containerd go-cni; CNI CONVENTIONS. */
const CAPABILITIES = {
  portMappings: true,
  bandwidth: true,
  dns: true,
  ipRanges: true,
  cgroupPath: true,
  "io.kubernetes.cri.pod-annotations": true,
};

/** A runtime that knows 1.1 takes that, and asks for STATUS and GC; another one takes no notice of the list. */
function configText({ socketPath }: PluginPlaces): string {
  const plugin = { type: OWN_PLUGIN, socket: socketPath, capabilities: CAPABILITIES };
  const list = {
    cniVersion: "1.0.0",
    cniVersions: ["1.0.0", "1.1.0"],
    name: "patchbay",
    plugins: [plugin],
  };
  return `${JSON.stringify(list, undefined, 2)}\n`;
}

/** The types that a configuration names; none where it cannot be read. */
function typesOf(text: string | undefined): readonly unknown[] {
  const config = parseJson(text);
  if (!isJsonObject(config)) return [];
  const plugins: readonly unknown[] = Array.isArray(config["plugins"]) ? config["plugins"] : [];
  return [config, ...plugins].map((one) => (isJsonObject(one) ? one["type"] : undefined));
}

async function assertAlone(
  { configDir }: PluginPlaces,
  { files, log }: InstallDeps,
): Promise<void> {
  for (const name of await files.list(configDir)) {
    if (!/\.(?:conf|conflist|json)$/.test(name)) continue;
    const path = `${configDir}/${name}`;
    const types = typesOf(await files.readText(path));
    const plugin = META_PLUGINS.find((meta) => types.includes(meta));
    if (plugin !== undefined) throw new AppError("CNI_RUNTIME_TAKEN", { path, plugin });
    if (name < CONFIG_FILE && !types.includes(OWN_PLUGIN)) {
      log.warn("the container runtime takes another configuration before ours", { path });
    }
  }
}

/**
 * Puts program and configuration where the runtime looks for them: the configuration last, since pods are made by it at once.
 * @throws AppError with CNI_RUNTIME_TAKEN where another one attaches what annotations ask for, OS_FILE_FAILED
 */
export async function installPlugin(places: PluginPlaces, deps: InstallDeps): Promise<void> {
  const { binDir, configDir } = places;
  await assertAlone(places, deps);
  await deps.putProgram(`${binDir}/${OWN_PLUGIN}`);
  const path = `${configDir}/${CONFIG_FILE}`;
  const text = configText(places);
  if (text === (await deps.files.readText(path))) return;
  await deps.files.writeAtomic(path, text);
  deps.log.info("the container runtime calls net-agent from now on", { path });
}

/** Takes both away, the configuration first: new pods get their networks from the next one. May be repeated. */
export async function removePlugin(places: PluginPlaces, deps: InstallDeps): Promise<void> {
  const { binDir, configDir } = places;
  await deps.files.remove(`${configDir}/${CONFIG_FILE}`);
  await deps.files.remove(`${binDir}/${OWN_PLUGIN}`);
  deps.log.info("the container runtime calls net-agent no more");
}
