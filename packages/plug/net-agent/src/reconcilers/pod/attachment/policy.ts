// SPDX-License-Identifier: Apache-2.0
// May the definition of a network name what it names? Its plugins run as root, whoever wrote it.
import { AppError, policyProblems } from "@patchbay/core";
import { parseKey } from "@patchbay/kube";
import type { NetworkConfigList } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";

/** Whether it matters which bridges the node has. */
function namesBridge({ plugins }: NetworkConfigList): boolean {
  return plugins.some((plugin) => plugin["bridge"] !== undefined || plugin.type === "bridge");
}

/** @throws AppError with CNI_DEFINITION_FORBIDDEN, which names all of it */
export async function assertAllowed(
  network: string,
  config: NetworkConfigList,
  deps: Deps,
): Promise<void> {
  const { namespace = "" } = parseKey(network);
  const policy = deps.policy.current();
  if (policy.trustedNamespaces.includes(namespace)) return;
  const ownBridges = namesBridge(config) ? await deps.listOwnBridges() : new Set<string>();
  const problems = policyProblems({ namespace, config }, policy, ownBridges);
  if (problems.length === 0) return;
  const named = problems.join(", ");
  throw new AppError("CNI_DEFINITION_FORBIDDEN", { network, namespace, named });
}
