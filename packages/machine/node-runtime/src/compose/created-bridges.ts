// SPDX-License-Identifier: Apache-2.0
// Records the bridges that CNI plugins create when the container runtime makes a sandbox.
import { join, resolve } from "node:path";
import { createBridgeRecorder, parseNetworkConfig } from "@patchbay/cni";
import { createNamespaces, createNetlink, readBootId } from "@patchbay/os";
import { createPodNetwork, listHostLinks } from "@patchbay/podnet";
import type { Files, Logger, NetworkConfigList, ProcessRunner } from "@patchbay/core/ports";
import type { Flags } from "../config.ts";
import type { PodDeps } from "../pods/deps.ts";

/** The configurations from which the runtime takes the default network; what is not readable names no bridge. */
export async function readNetworkConfigs(
  files: Files,
  directory: string,
): Promise<readonly NetworkConfigList[]> {
  const names = await files.list(directory);
  const texts = await Promise.all(names.map((name) => files.readText(join(directory, name))));
  return texts.flatMap((text) => {
    const parsed = parseNetworkConfig(text ?? "", "");
    return parsed.ok ? [parsed.config] : [];
  });
}

/** How the runtime's calls of CNI are observed. */
export async function composeBridgeRecorder(
  {
    files,
    runner,
    log,
  }: {
    readonly files: Files;
    readonly runner: ProcessRunner;
    readonly log: Logger;
  },
  { stateDir, cniConfDir }: Flags,
): Promise<PodDeps["observeNetworks"]> {
  const namespaces = createNamespaces();
  const podNetwork = createPodNetwork({ runner, netlink: createNetlink() });
  const recorder = createBridgeRecorder({
    files,
    log,
    stateDir: resolve(stateDir),
    bootId: await readBootId(files),
    listHostLinks: () => listHostLinks(undefined, { namespaces, podNetwork }),
  });
  const directory = resolve(cniConfDir);
  return async (makeSandbox) =>
    recorder.observe(await readNetworkConfigs(files, directory), makeSandbox);
}
