// SPDX-License-Identifier: Apache-2.0
// The node's own bridges: those with a port that leads elsewhere than to a pod or a guest.
import type { Link, Files } from "@patchbay/core/ports";
import { createLinkWatch } from "@patchbay/os";
import type { Flags } from "./config.ts";
import { listHostLinks, openHostNetns, type HostLinksDeps } from "@patchbay/podnet";
import type { DefinitionLoopParts } from "./reconcilers/definition/loop.ts";
import { createNodeView } from "./reconcilers/definition/node-view.ts";

/** Kinds of links that lead to pods and guests. Source: Linux, rtnl_link_ops of veth and tun. */
const TO_GUESTS: readonly string[] = ["veth", "tun"];

/** Names of the bridges among the links of a host. */
export function ownBridgesOf(links: readonly Link[]): ReadonlySet<string> {
  return new Set(
    links.flatMap(({ kind, master }) =>
      master === undefined || TO_GUESTS.includes(kind) ? [] : [master],
    ),
  );
}

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
