// SPDX-License-Identifier: Apache-2.0
// The host as definitions are judged by it: its files, its links, and what tells that these have changed.
import { createLinkWatch } from "@patchbay/os";
import type { Files } from "@patchbay/core/ports";
import type { Flags } from "../config.ts";
import { listHostLinks, openHostNetns, type HostLinksDeps } from "@patchbay/podnet";
import { ownBridgesOf } from "./links.ts";
import type { DefinitionLoopParts } from "../reconcilers/definition/loop.ts";
import { createNodeView } from "../reconcilers/definition/node-view.ts";

type Host = Pick<
  DefinitionLoopParts,
  "files" | "node" | "listOwnBridges" | "linkWatch" | "openHostNetns" | "directories"
>;

/** Where the host's files are; plugins are the host's, also where this process has other files. */
export function hostRootOf(hostProcess: number | undefined): string {
  return hostProcess === undefined ? "" : `/proc/${String(hostProcess)}/root`;
}

/** The host of this agent. */
export function hostOf(
  deps: HostLinksDeps & { readonly files: Files },
  { hostProcess, cniBinDir, definitionDir, ownBridge }: Flags,
): Host {
  const { files } = deps;
  const hostRoot = hostRootOf(hostProcess);
  const list = (): ReturnType<typeof listHostLinks> => listHostLinks(hostProcess, deps);
  return {
    files,
    node: createNodeView({ files, hostRoot, binDirs: cniBinDir, listHostLinks: list }),
    listOwnBridges: async () => new Set([...ownBridge, ...ownBridgesOf(await list())]),
    linkWatch: createLinkWatch(),
    openHostNetns: () => openHostNetns(hostProcess, deps),
    directories: [...cniBinDir.map((directory) => `${hostRoot}${directory}`), definitionDir],
  };
}
