// SPDX-License-Identifier: Apache-2.0
// Where is a pod's NIC once KubeVirt has wired it? Its virt-handler renames the NIC and makes it a port; the NIC's name and
// addresses go to a dummy, which a plugin would take for the NIC. Source: KubeVirt network/setup/netpod/netpod.go.
import type { Link } from "../ports/index.ts";
import { movedNameOf } from "./names.ts";

/**
 * The name that the NIC has now; undefined: the one that CNI gave it. A NIC of that name that is no port, beside one that has
 * the name, was left by somebody else.
 */
export function findMovedNic(
  links: readonly Pick<Link, "name" | "master">[],
  podInterfaceName: string,
): string | undefined {
  const moved = links.find(({ name }) => name === movedNameOf(podInterfaceName));
  if (moved === undefined) return undefined;
  const isNameFree = links.every(({ name }) => name !== podInterfaceName);
  return isNameFree || moved.master !== undefined ? moved.name : undefined;
}
