// SPDX-License-Identifier: Apache-2.0
// Objects that the server keeps for itself: made where they are missing, corrected where they are not as they should be.
import { type Kind, apiVersionOf, bucketOf } from "../kinds/kind.ts";
import { equalJson } from "../objects/json.ts";
import type { KubeObject, Meta } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Transaction } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";

/** Which object is kept, by kind and place. */
export interface Kept {
  readonly kind: Kind;
  /** Empty for the cluster. */
  readonly namespace: string;
  readonly name: string;
}

function newObject(kept: Kept, deps: VerbDeps): KubeObject {
  const { kind, namespace, name } = kept;
  const metadata: Meta = {
    name,
    ...(namespace === "" ? {} : { namespace }),
    uid: deps.random.uid(),
    creationTimestamp: rfc3339(deps.clock.now()),
  };
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, metadata };
}

/** Writes what `edit` makes of the object, or of an empty one; nothing where that is what is there. */
export function keepObject(
  transaction: Transaction,
  given: { readonly kept: Kept; readonly deps: VerbDeps },
  edit: (object: KubeObject, isNew: boolean) => void,
): void {
  const { kept, deps } = given;
  const address = { bucket: bucketOf(kept.kind), namespace: kept.namespace, name: kept.name };
  const stored = transaction.find(address);
  const object = stored?.copy() ?? newObject(kept, deps);
  edit(object, stored === undefined);
  if (stored === undefined || !equalJson(object, stored.view())) {
    transaction.put(address, object);
  }
}
