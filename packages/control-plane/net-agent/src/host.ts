// SPDX-License-Identifier: Apache-2.0
// Access to the host's links and files, for checks of NetworkAttachmentDefinitions.
import type { Link, Files, Netlink } from "@patchbay/core/interfaces";
import { parseIp } from "@patchbay/api/values";
import { listCreatedBridges } from "@patchbay/cni";
import type { CreatedBridge, NodeSubnet } from "@patchbay/core/nics";
import { createLinkWatch, listListeningPorts } from "@patchbay/os";
import type { Flags } from "./config.ts";
import {
  listHostLinks,
  listHostSubnets,
  openHostNetns,
  type HostLinksDeps,
  type HostSubnet,
} from "@patchbay/podnet";
import type { Deps } from "./deps.ts";
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
  | "files"
  | "node"
  | "listOwnBridges"
  | "listNodeSubnets"
  | "linkWatch"
  | "openHostNetns"
  | "directories"
> &
  Pick<Deps, "listListeningPorts">;

export function toNodeSubnets(
  subnets: readonly HostSubnet[],
  created: readonly CreatedBridge[],
): readonly NodeSubnet[] {
  return subnets.flatMap(({ prefix: text, link, index, kind }) => {
    const prefix = parseIp(text);
    if (prefix === undefined) return [];
    const isCreated = created.some((bridge) => bridge.name === link && bridge.index === index);
    const isHostRoute = prefix.length === (prefix.version === 4 ? 32 : 128);
    return [{ prefix, link, isOfPlugin: isCreated || (kind === "veth" && isHostRoute) }];
  });
}

/** Returns the path of the host's root directory, or an empty path if this process runs on the host. */
export function findHostRoot(hostProcess: number | undefined): string {
  return hostProcess === undefined ? "" : `/proc/${String(hostProcess)}/root`;
}

export function openHost(
  deps: HostLinksDeps & {
    readonly files: Files;
    readonly netlink: Netlink;
    readonly bootId: string;
  },
  { hostProcess, cniBinDir, definitionDir, ownBridge, stateDir }: Flags,
): Host {
  const { files, bootId } = deps;
  const hostRoot = findHostRoot(hostProcess);
  const listLinks = (): ReturnType<typeof listHostLinks> => listHostLinks(hostProcess, deps);
  return {
    files,
    node: createNodeView({ files, hostRoot, binDirs: cniBinDir, listHostLinks: listLinks }),
    listOwnBridges: async () => new Set([...ownBridge, ...findOwnBridges(await listLinks())]),
    listNodeSubnets: async () =>
      toNodeSubnets(
        await listHostSubnets(hostProcess, deps),
        await listCreatedBridges(files, { stateDir, bootId }),
      ),
    listListeningPorts: async () => {
      const directory = `/proc/${String(hostProcess ?? "self")}/net`;
      const ports = await listListeningPorts(files, directory);
      return ports && new Set(ports.map(({ port }) => port));
    },
    linkWatch: createLinkWatch(),
    openHostNetns: () => openHostNetns(hostProcess, deps),
    directories: [...cniBinDir.map((directory) => `${hostRoot}${directory}`), definitionDir],
  };
}
