// SPDX-License-Identifier: Apache-2.0
// Which bridges are the node's own? Those with a port that leads elsewhere than to a pod or a guest.
import { AppError } from "@patchbay/core";
import type { Link, Namespaces, PodNetwork } from "@patchbay/core/ports";

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

/** What tells of them beside the links. */
interface OwnBridgeFlags {
  /** Default: this process. */
  readonly hostProcess?: number | "self";
  readonly ownBridge: readonly string[];
}

/**
 * Those that are named, and those that the host's links tell, as the network namespace of that process has them.
 * @throws AppError with OS_PATH_REFUSED where it cannot be opened
 */
export async function listOwnBridges(
  { hostProcess = "self", ownBridge }: OwnBridgeFlags,
  deps: {
    readonly namespaces: Namespaces;
    readonly podNetwork: Pick<PodNetwork, "listLinks">;
  },
): Promise<ReadonlySet<string>> {
  const path = `/proc/${String(hostProcess)}/ns/net`;
  const netns = deps.namespaces.open(path);
  if (netns === undefined) {
    throw new AppError("OS_PATH_REFUSED", { path, reason: "it is not a network namespace" });
  }
  try {
    const found = ownBridgesOf(await deps.podNetwork.listLinks(netns));
    return new Set([...ownBridge, ...found]);
  } finally {
    netns.close();
  }
}
