// SPDX-License-Identifier: Apache-2.0
// Wires up the server for the container runtime, if flags enable it. No decisions.
import { names, type Pod } from "@patchbay/api";
import { PLUGIN_PROGRAM } from "@patchbay/cni";
import { parseKey } from "@patchbay/kube";
import { installProgram } from "@patchbay/os";
import type { Cache, Files, Logger } from "@patchbay/core/ports";
import type { Flags } from "./config.ts";
import type { LoopParts } from "./loop.ts";
import { readDefaultNetwork } from "./runtime/default-network.ts";
import type { RuntimeDeps, RuntimeParts } from "./runtime/deps.ts";
import { installPlugin, removePlugin, type PluginPlaces } from "./runtime/installation.ts";
import { serveRuntime } from "./runtime/serve.ts";

interface RuntimeWorld {
  readonly files: Files;
  readonly log: Logger;
  readonly pods: Cache<Pod>;
}

/** Whether the annotation on the agent's own pod says that the agent is being uninstalled. */
function isToLeave({ ownPod }: Flags, { pods }: RuntimeWorld): boolean {
  const pod = ownPod === undefined ? undefined : pods.find(parseKey(ownPod));
  return pod?.metadata.annotations?.[names.LEAVE_RUNTIME_ANNOTATION] === "true";
}

/** Installs the plugin when the server starts, and removes it at the end if the agent is being uninstalled. */
function keepInstalled(
  places: PluginPlaces | undefined,
  flags: Flags,
  world: RuntimeWorld,
): Pick<RuntimeParts, "served" | "leaving"> {
  if (places === undefined) {
    return { served: () => Promise.resolve(), leaving: () => Promise.resolve() };
  }
  const deps = { ...world, putProgram: (path: string) => installProgram(PLUGIN_PROGRAM, path) };
  return {
    served: () => installPlugin(places, deps),
    leaving: async () => {
      if (isToLeave(flags, world)) await removePlugin(places, deps);
    },
  };
}

/** The server for the container runtime and its default network, with a promise that resolves when it serves. Empty without a socket. */
export function answersTo(
  flags: Flags,
  world: RuntimeWorld,
): {
  readonly begun: Promise<void>;
  readonly parts: Pick<LoopParts, "serveRuntime" | "readDefaultNetwork">;
} {
  const { cniSocket: socketPath, defaultNetwork: where, runtimeConfigDir: configDir } = flags;
  if (socketPath === undefined) return { begun: Promise.resolve(), parts: {} };
  const { files } = world;
  const { installPlugin: binDir } = flags;
  const places = binDir === undefined ? undefined : { binDir, configDir, socketPath };
  const { served, leaving } = keepInstalled(places, flags, world);
  const { promise: begun, resolve } = Promise.withResolvers<undefined>();
  const parts: RuntimeParts = {
    socketPath,
    nodeName: flags.nodeName,
    leaving,
    ...(flags.hostProcess !== undefined && { hostProcess: flags.hostProcess }),
    served: async () => {
      await served();
      resolve(undefined);
    },
  };
  const network: Pick<RuntimeDeps, "readDefaultNetwork"> = {
    readDefaultNetwork: () => readDefaultNetwork(files, { where, confDir: configDir }),
  };
  const serveWith: LoopParts["serveRuntime"] = (deps, signal) =>
    serveRuntime({ ...deps, ...parts, ...network }, files, signal);
  return { begun: begun.then(() => undefined), parts: { ...network, serveRuntime: serveWith } };
}
