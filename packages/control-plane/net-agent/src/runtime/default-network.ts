// SPDX-License-Identifier: Apache-2.0
// Reads the pods' default network. The file is read for each pod, because it may change at any time.
import { parseNetworkConfig } from "@patchbay/cni";
import { AppError } from "@patchbay/base";
import type { Files, NetworkConfigList } from "@patchbay/core/interfaces";
import { OWN_PLUGIN } from "../reconcilers/pod/attachment/policy.ts";

/** Extensions of configuration files. Source: CNI libcni ConfFiles. */
const EXTENSIONS: readonly string[] = [".conf", ".conflist", ".json"];

function isConfigFile(path: string): boolean {
  return EXTENSIONS.some((ending) => path.endsWith(ending));
}

function toMissingNetworkError(reason: string): AppError {
  return new AppError("CNI_DEFAULT_NETWORK_MISSING", { reason });
}

async function readConfig(files: Files, path: string): Promise<NetworkConfigList> {
  const text = await files.readText(path);
  if (text === undefined) throw toMissingNetworkError(`${path} does not exist`);
  const parsed = parseNetworkConfig(text, "");
  if (parsed.ok) return parsed.config;
  const causes = parsed.causes.map(({ field, message }) => `${field} ${message}`).join(", ");
  throw toMissingNetworkError(`${path}: ${causes}`);
}

/** Finds the first wanted configuration, in file-name order. Ignores invalid configurations, and those with plugin patchbay-cni. */
async function findInDirectory(
  files: Files,
  directory: string,
  isWanted: (config: NetworkConfigList) => boolean,
): Promise<NetworkConfigList> {
  const problems: string[] = [];
  for (const name of await files.list(directory)) {
    if (!isConfigFile(name)) continue;
    try {
      const config = await readConfig(files, `${directory}/${name}`);
      const isOwn = config.plugins.some(({ type }) => type === OWN_PLUGIN);
      if (!isOwn && isWanted(config)) return config;
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      problems.push(String(error.details["reason"]));
    }
  }
  throw toMissingNetworkError([`no usable configuration in ${directory}`, ...problems].join("; "));
}

/** Value of `source` with which the agent serves only pods that name their own default network. */
export const NO_DEFAULT_NETWORK = "none";

/**
 * Reads the default network of pods. `source` is a file, a directory, a name in `confDir`, or {@link NO_DEFAULT_NETWORK}.
 * @throws AppError with CNI_DEFAULT_NETWORK_MISSING
 */
export function readDefaultNetwork(
  files: Files,
  { source, confDir }: { readonly source: string; readonly confDir: string },
): Promise<NetworkConfigList> {
  if (source === NO_DEFAULT_NETWORK) {
    const reason = "the container runtime attaches it, except for pods that name their own";
    return Promise.reject(toMissingNetworkError(reason));
  }
  if (!source.startsWith("/"))
    return findInDirectory(files, confDir, ({ name }) => name === source);
  return isConfigFile(source)
    ? readConfig(files, source)
    : findInDirectory(files, source, () => true);
}
