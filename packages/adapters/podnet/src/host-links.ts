// SPDX-License-Identifier: Apache-2.0
// The links of the node itself, in the network namespace of one of its processes.
import { AppError } from "@patchbay/core";
import type { Link, Namespaces, OpenNetns, PodNetwork } from "@patchbay/core/ports";

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
