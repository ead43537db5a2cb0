// SPDX-License-Identifier: Apache-2.0
// Access to the host's links and files, for checks of NetworkAttachmentDefinitions.
import type { Link, Files } from "@patchbay/core/interfaces";
import { createLinkWatch } from "@patchbay/os";
import type { Flags } from "./config.ts";
import { listHostLinks, openHostNetns, type HostLinksDeps } from "@patchbay/podnet";
import type { DefinitionLoopParts } from "./reconcilers/definition/loop.ts";
import { createNodeView } from "./reconcilers/definition/node-view.ts";

/** Kinds of links that connect pods or guests to the host. Source: Linux, rtnl_link_ops of veth and tun. */
const GUEST_LINK_KINDS: readonly string[] = ["veth", "tun"];

/** Returns the host's own bridges. Such a bridge has a port that is neither a pod's (veth) nor a guest's (tap). */
export function findOwnBridges(links: readonly Link[]): ReadonlySet<string> {
  return new Set(
    links.flatMap(({ kind, master }) =>
      master === undefined || GUEST_LINK_KINDS.includes(kind) ? [] : [master],
    ),
  );
}

type Host = Pick<
  DefinitionLoopParts,
  "files" | "node" | "listOwnBridges" | "linkWatch" | "openHostNetns" | "directories"
>;

/** Returns the path of the host's root directory, or an empty path if this process runs on the host. */
export function findHostRoot(hostProcess: number | undefined): string {
  return hostProcess === undefined ? "" : `/proc/${String(hostProcess)}/root`;
}

export function openHost(
  deps: HostLinksDeps & { readonly files: Files },
  { hostProcess, cniBinDir, definitionDir, ownBridge }: Flags,
): Host {
  const { files } = deps;
  const hostRoot = findHostRoot(hostProcess);
  const listLinks = (): ReturnType<typeof listHostLinks> => listHostLinks(hostProcess, deps);
  return {
    files,
    node: createNodeView({ files, hostRoot, binDirs: cniBinDir, listHostLinks: listLinks }),
    listOwnBridges: async () => new Set([...ownBridge, ...findOwnBridges(await listLinks())]),
    linkWatch: createLinkWatch(),
    openHostNetns: () => openHostNetns(hostProcess, deps),
    directories: [...cniBinDir.map((directory) => `${hostRoot}${directory}`), definitionDir],
  };
}
