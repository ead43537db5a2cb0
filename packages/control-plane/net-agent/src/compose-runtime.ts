// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { PLUGIN_PROGRAM } from "@patchbay/cni";
import { parseKey } from "@patchbay/kube";
import { installProgram } from "@patchbay/os";
import type { Cache, Files } from "@patchbay/core/interfaces";
import type { Logger } from "@patchbay/base";
import type { Flags } from "./config.ts";
import type { LoopParts } from "./loop.ts";
import { NO_DEFAULT_NETWORK, readDefaultNetwork } from "./runtime/default-network.ts";
import type { RuntimeDeps, RuntimeOptions } from "./runtime/deps.ts";
import { installPlugin, removePlugin, type PluginPaths } from "./runtime/installation.ts";
import { serveRuntime } from "./runtime/serve.ts";

interface RuntimeAdapters {
  readonly files: Files;
  readonly log: Logger;
  readonly pods: Cache<Pod>;
}

function isUninstalling({ ownPod }: Flags, { pods }: RuntimeAdapters): boolean {
  const pod = ownPod === undefined ? undefined : pods.find(parseKey(ownPod));
  return pod?.metadata.annotations?.[names.UNINSTALL_PLUGIN_ANNOTATION] === "true";
}

/** Returns hooks that install the CNI plugin when the server starts, and remove the plugin when net-agent is uninstalled. */
function installHooks(
  paths: PluginPaths | undefined,
  flags: Flags,
  adapters: RuntimeAdapters,
): Pick<RuntimeOptions, "onServing" | "onEnd"> {
  if (paths === undefined) {
    return { onServing: () => Promise.resolve(), onEnd: () => Promise.resolve() };
  }
  const deps = { ...adapters, copyProgram: (path: string) => installProgram(PLUGIN_PROGRAM, path) };
  return {
    onServing: () => installPlugin(paths, deps),
    onEnd: async () => {
      if (isUninstalling(flags, adapters)) await removePlugin(paths, deps);
    },
  };
}

/** Creates the server for the container runtime. If no socket is configured, `parts` is empty and `serving` resolves at once. */
export function composeRuntime(
  flags: Flags,
  adapters: RuntimeAdapters,
): {
  readonly serving: Promise<void>;
  readonly parts: Pick<LoopParts, "serveRuntime" | "readDefaultNetwork">;
} {
  const { cniSocket: socketPath, defaultNetwork: source, runtimeConfigDir: configDir } = flags;
  if (socketPath === undefined) return { serving: Promise.resolve(), parts: {} };
  const { files } = adapters;
  const { installPlugin: binDir } = flags;
  const paths = binDir === undefined ? undefined : { binDir, configDir, socketPath };
  const { onServing, onEnd } = installHooks(paths, flags, adapters);
  const { promise: serving, resolve } = Promise.withResolvers<undefined>();
  const parts: RuntimeOptions = {
    socketPath,
    nodeName: flags.nodeName,
    onEnd,
    ...(flags.hostProcess !== undefined && { hostProcess: flags.hostProcess }),
    onServing: async () => {
      await onServing();
      resolve(undefined);
    },
  };
  const read: RuntimeDeps["readDefaultNetwork"] = () =>
    readDefaultNetwork(files, { source, confDir: configDir });
  const serve: LoopParts["serveRuntime"] = (deps, signal) =>
    serveRuntime({ ...deps, ...parts, readDefaultNetwork: read }, files, signal);
  return {
    serving: serving.then(() => undefined),
    parts: {
      ...(source !== NO_DEFAULT_NETWORK && { readDefaultNetwork: read }),
      serveRuntime: serve,
    },
  };
}
