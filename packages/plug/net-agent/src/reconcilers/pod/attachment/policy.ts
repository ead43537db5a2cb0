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

/** The program that runtimes call, which calls us. Source: packages/adapters/cni/native. */
export const OWN_PLUGIN = "patchbay-cni";

/**
 * It would wait for itself.
 * @throws AppError with CNI_PLUGIN_CALLS_ITSELF
 */
export function assertNotOwn(network: string, { plugins }: NetworkConfigList): void {
  if (!plugins.some(({ type }) => type === OWN_PLUGIN)) return;
  throw new AppError("CNI_PLUGIN_CALLS_ITSELF", { network, plugin: OWN_PLUGIN });
}

/** @throws AppError with CNI_PLUGIN_CALLS_ITSELF, or CNI_DEFINITION_FORBIDDEN, which names all of it */
export async function assertAllowed(
  network: string,
  config: NetworkConfigList,
  deps: Deps,
): Promise<void> {
  assertNotOwn(network, config);
  const { namespace = "" } = parseKey(network);
  const policy = deps.policy.current();
  if (policy.trustedNamespaces.includes(namespace)) return;
  const ownBridges = namesBridge(config) ? await deps.listOwnBridges() : new Set<string>();
  const problems = policyProblems({ namespace, config }, policy, ownBridges);
  if (problems.length === 0) return;
  const named = problems.join(", ");
  throw new AppError("CNI_DEFINITION_FORBIDDEN", { network, namespace, named });
}
