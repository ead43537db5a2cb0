// SPDX-License-Identifier: Apache-2.0
// Which links has the host, and which bridges are the node's own? Those with a port that leads elsewhere than to a pod or a guest.
import { AppError } from "@patchbay/core";
import type { Link, Namespaces, OpenNetns, PodNetwork } from "@patchbay/core/ports";

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

/** Where the host's links are. */
export interface HostLinksDeps {
  readonly namespaces: Namespaces;
  readonly podNetwork: Pick<PodNetwork, "listLinks">;
}

/**
 * The host's network namespace, as that process has it; default: this process.
 * @throws AppError with OS_PATH_REFUSED where it cannot be opened
 */
export function openHostNetns(
  hostProcess: number | undefined,
  { namespaces }: Pick<HostLinksDeps, "namespaces">,
): OpenNetns {
  const path = `/proc/${String(hostProcess ?? "self")}/ns/net`;
  const netns = namespaces.open(path);
  if (netns !== undefined) return netns;
  throw new AppError("OS_PATH_REFUSED", { path, reason: "it is not a network namespace" });
}

/** All links of the host. @throws AppError with OS_PATH_REFUSED */
export async function listHostLinks(
  hostProcess: number | undefined,
  deps: HostLinksDeps,
): Promise<readonly Link[]> {
  const netns = openHostNetns(hostProcess, deps);
  try {
    return await deps.podNetwork.listLinks(netns);
  } finally {
    netns.close();
  }
}
