// SPDX-License-Identifier: Apache-2.0
// Lists the default network and all networks with a usable definition. Unusable definitions are reported only when a pod requests them.
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import { isAppError } from "@patchbay/base";
import { keyOf, printKey } from "@patchbay/kube";
import type { NetworkConfigList } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { readDefinition } from "../pod/attachment/definition.ts";
import { assertAllowed } from "../pod/attachment/policy.ts";

export interface UsableNetwork {
  /** NAMESPACE/NAME of the definition, or the CNI name of the default network. */
  readonly name: string;
  /** Unset for the pods' default network, which a file of the node defines. */
  readonly definition?: NetworkAttachmentDefinition;
  readonly config: NetworkConfigList;
}

/** Returns the pods' default network. Returns an empty list if this agent does not attach that network, or if its file is unreadable. */
async function findDefault({
  readDefaultNetwork,
}: Pick<Deps, "readDefaultNetwork">): Promise<readonly UsableNetwork[]> {
  try {
    const config = await readDefaultNetwork?.();
    return config === undefined ? [] : [{ name: config.name, config }];
  } catch (error) {
    if (!isAppError(error)) throw error;
    return []; // The runtime's CNI calls STATUS and ADD report this error.
  }
}

export async function listNetworks(deps: Deps): Promise<readonly UsableNetwork[]> {
  const usable: UsableNetwork[] = [];
  for (const definition of deps.nads.list()) {
    const name = printKey(keyOf(definition));
    try {
      const config = await readDefinition(name, deps);
      await assertAllowed({ network: name, config }, deps);
      usable.push({ name, definition, config });
    } catch (error) {
      if (!isAppError(error)) throw error;
    }
  }
  const sorted = usable.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return [...(await findDefault(deps)), ...sorted];
}
