// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import type { Files } from "@patchbay/core/interfaces";
import { buildContainerdLayout } from "../runtime/own-containerd.ts";
import type { Paths } from "../data-dir/paths.ts";
import type { Settings } from "../settings/settings.ts";
import { Buffer } from "node:buffer";
import { parseFields, readText } from "../data-dir/json.ts";

const CONFIG_FILE = "10-patchbay.conflist";

/** Source: CNI specification 1.0, section 1; documentation of the plugins bridge and host-local. */
export function buildDefaultNetwork(settings: Settings, leasesDir: string): object {
  return {
    cniVersion: "1.0.0",
    name: "patchbay",
    plugins: [
      {
        type: "bridge",
        bridge: settings.bridge,
        isGateway: true,
        ipMasq: true,
        ipam: {
          type: "host-local",
          dataDir: leasesDir,
          ranges: [[{ subnet: settings.podSubnet }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
    ],
  };
}

/** Writes the configuration of the default network, unless an administrator added another file. */
export async function writeDefaultNetwork(
  files: Files,
  paths: Paths,
  settings: Settings,
): Promise<void> {
  const otherFiles = (await files.list(paths.cniConf)).filter((name) => name !== CONFIG_FILE);
  if (otherFiles.length > 0) return;
  const file = join(paths.cniConf, CONFIG_FILE);
  const text = `${JSON.stringify(buildDefaultNetwork(settings, paths.cniLeases), undefined, 2)}\n`;
  if (text !== (await files.readText(file))) await files.writeAtomic(file, text);
}

/** Directory of CNI's cached results, which all container runtimes of a host share. Source: CacheDir of the CNI library. */
const RESULTS_DIR = "/var/lib/cni/results";

/** Returns whether a cached result belongs to one of the configurations. Source: cachedInfo of the CNI library. */
export function isResultOf(text: string | undefined, configs: readonly string[]): boolean {
  const config = Buffer.from(readText(parseFields(text), "config"), "base64").toString("utf8");
  return config !== "" && configs.includes(config);
}

/** Removes this machine's results from the cache. The machine's pods must have been deleted. */
export async function removeCniResults({
  files,
  paths,
}: {
  readonly files: Files;
  readonly paths: Paths;
}): Promise<void> {
  const directories = [paths.cniConf, buildContainerdLayout(paths).ownNetworkConf];
  const lists = await Promise.all(
    directories.map(async (path) => (await files.list(path)).map((name) => join(path, name))),
  );
  const texts = await Promise.all(lists.flat().map((path) => files.readText(path)));
  const configs = texts.filter((text) => text !== undefined);
  for (const name of await files.list(RESULTS_DIR)) {
    const path = join(RESULTS_DIR, name);
    if (isResultOf(await files.readText(path), configs)) await files.remove(path);
  }
}
