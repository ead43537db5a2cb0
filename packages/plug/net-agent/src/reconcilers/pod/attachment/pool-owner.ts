// SPDX-License-Identifier: Apache-2.0
// Whose addresses would a tenant's network give? host-local keeps them by the network's name, whoever has given that name.
import { isAppError, leaseDirectoriesOf } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { NetworkConfigList } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import { definitionOf } from "./definition.ts";

/** What tells of the networks of administrators. */
export type PoolOwners = Pick<Deps, "policy" | "nads" | "definitionFiles" | "readDefaultNetwork">;

/** What cannot be read gives no addresses. */
async function readOr<T>(read: () => Promise<T> | undefined): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isAppError(error)) return undefined;
    throw error;
  }
}

/**
 * The network of an administrator whose addresses those of the configuration would be, in words; undefined: there is none.
 * That of every pod goes by its name alone, since its plugin may choose its IPAM plugin itself. Source: plugin flannel.
 */
export async function findPoolOwner(
  config: NetworkConfigList,
  deps: PoolOwners,
): Promise<string | undefined> {
  const directories = new Set(leaseDirectoriesOf(config));
  if (directories.size === 0) return undefined;
  const everyPods = await readOr(() => deps.readDefaultNetwork?.());
  if (everyPods?.name === config.name) return "the pods' default network";
  const { trustedNamespaces } = deps.policy.current();
  for (const nad of deps.nads.list()) {
    if (!trustedNamespaces.includes(nad.metadata.namespace ?? "")) continue;
    const network = printKey(keyOf(nad));
    const other = await readOr(() => definitionOf(network, deps));
    const others = other === undefined ? [] : leaseDirectoriesOf(other);
    if (others.some((directory) => directories.has(directory))) return `network ${network}`;
  }
  return undefined;
}
