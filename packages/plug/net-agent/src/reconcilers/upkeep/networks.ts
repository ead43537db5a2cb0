// SPDX-License-Identifier: Apache-2.0
// Which networks are looked after? Those whose definition could be attached now; what keeps one from that is told where it
// is to be attached.
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { NetworkConfigList } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import { definitionOf } from "../pod/attachment/definition.ts";
import { assertAllowed } from "../pod/attachment/policy.ts";

/** A network that can be used. */
export interface UsableNetwork {
  /** NAMESPACE/NAME of its definition. */
  readonly name: string;
  /** Absent: it is the pods' default network, which is in a file of the node. */
  readonly definition?: NetworkAttachmentDefinition;
  readonly config: NetworkConfigList;
}

/** The pods' default network, where this agent makes it and it can be read; its name is that of its configuration. */
async function findDefault({
  readDefaultNetwork,
}: Pick<Deps, "readDefaultNetwork">): Promise<readonly UsableNetwork[]> {
  try {
    const config = await readDefaultNetwork?.();
    return config === undefined ? [] : [{ name: config.name, config }];
  } catch (error) {
    if (!isAppError(error)) throw error;
    return []; // pods that are made say so, and so does STATUS
  }
}

/** All networks that can be used: the default one, and the others sorted by name. */
export async function listNetworks(deps: Deps): Promise<readonly UsableNetwork[]> {
  const usable: UsableNetwork[] = [];
  for (const definition of deps.nads.list()) {
    const name = printKey(keyOf(definition));
    try {
      const config = await definitionOf(name, deps);
      await assertAllowed(name, config, deps);
      usable.push({ name, definition, config });
    } catch (error) {
      if (!isAppError(error)) throw error;
    }
  }
  const sorted = usable.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return [...(await findDefault(deps)), ...sorted];
}
