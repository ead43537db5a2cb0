// SPDX-License-Identifier: Apache-2.0
// Which versions of CNI does a plugin speak?
import { parseJson } from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import { invokePlugin, type PluginHost } from "./invoke-plugin.ts";
import { parseVersions } from "./version.ts";

/** A plugin answers VERSION without doing anything. */
const VERSION_TIMEOUT_MS = 5_000;

/** What plugins have said of the versions that they speak; undefined: nothing that is understood. */
export type KnownVersions = Map<string, Promise<readonly string[] | undefined>>;

/**
 * Asks a plugin which versions it speaks, once. Also finds out early that it is missing. One that does not know the
 * question is none the worse for it: the version of the configuration is spoken, as a runtime does that never asks.
 */
export async function findSupported(
  host: PluginHost,
  known: KnownVersions,
  plugin: string,
): Promise<readonly string[] | undefined> {
  const before = known.get(plugin);
  if (before !== undefined) return before;
  // Whoever comes while it is asked waits for the same answer; an answer that is none is asked for again.
  const asked = askVersions(host, plugin).then(parseVersions);
  known.set(plugin, asked);
  let versions: readonly string[] | undefined;
  try {
    versions = await asked;
    return versions;
  } finally {
    if (versions === undefined) known.delete(plugin);
  }
}

async function askVersions(host: PluginHost, plugin: string): Promise<unknown> {
  try {
    const answer = await invokePlugin(host, {
      plugin,
      network: plugin,
      command: "VERSION",
      stdin: JSON.stringify({ cniVersion: "1.0.0" }),
      env: {},
      timeoutMs: VERSION_TIMEOUT_MS,
    });
    return parseJson(answer);
  } catch (error) {
    if (isAppError(error, "CNI_PLUGIN_FAILED") || isAppError(error, "CNI_CONFIG_INVALID")) {
      return undefined;
    }
    throw error;
  }
}
