// SPDX-License-Identifier: Apache-2.0
// What is told of an attachment that waits for a name which could not be freed?
import type { AttachmentError } from "@patchbay/api";
import type { Deps } from "../../deps.ts";
import type { PodFacts } from "./observe.ts";
import { stepOf, type Action } from "./step.ts";

/** An attachment that could not be removed: its row is the recipe of the next try, so nothing else gets its name. */
export interface Holder {
  /** NAMESPACE/NAME of the network that has the name. */
  readonly network: string;
  /** Why it could not be removed. */
  readonly message: string;
}

/** Never the failure of another network; of the attachment's own, why it was not made. */
export function nameInUseError(
  action: Extract<Action, { readonly kind: "add" }>,
  { facts, holder }: { readonly facts: PodFacts; readonly holder: Holder },
  deps: Deps,
): AttachmentError {
  const own = deps.failures.lastOf(stepOf(action, facts, deps));
  if (own !== undefined) return own;
  const { network, interfaceName } = action.wanted;
  if (network === holder.network) return { reason: "CniFailed", message: holder.message };
  const message = `${interfaceName} is in use until ${holder.network} is detached: ${holder.message}`;
  return { reason: "InterfaceNameTaken", message };
}
