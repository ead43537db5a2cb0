// SPDX-License-Identifier: Apache-2.0
// Writes that the server makes itself.
import { type Kind, apiVersionOf, bucketOf } from "../kinds/kind.ts";
import { StatusError } from "../meta/status.ts";
import { equalJson } from "../objects/json.ts";
import type { Address, KubeObject, Meta } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Transaction } from "../storage/store.ts";
import type { Call } from "../verbs/call.ts";
import { changeObject } from "../verbs/change.ts";
import { deleteOne } from "../verbs/delete.ts";
import type { VerbDeps } from "../verbs/deps.ts";

const SYSTEM = {
  name: "system:kube-controller-manager",
  groups: ["system:masters", "system:authenticated"],
};

function toCall(kind: Kind, address: Address, subresource = ""): Call {
  return {
    kind,
    namespace: address.namespace,
    name: address.name,
    subresource,
    query: new URLSearchParams(),
    body: { text: "", contentType: "" },
    user: SYSTEM,
    representation: { format: "json", as: "object", pretty: false },
    warnings: [],
  };
}

function ignoreAbsent(error: unknown): void {
  if (!(error instanceof StatusError && error.code === 404)) {
    throw error;
  }
}

/** Changes an object; absent is success. `edit` may change what it is given. `subresource`: what admission is told. */
export async function changeInternally(
  deps: VerbDeps,
  at: { readonly kind: Kind; readonly address: Address; readonly subresource?: string },
  edit: (object: KubeObject) => KubeObject,
): Promise<void> {
  const change = { part: "all", edit } as const;
  await changeObject(toCall(at.kind, at.address, at.subresource), deps, change).catch(ignoreAbsent);
}

/** Deletes an object; absent is success. An empty `uid` takes whatever has the name. */
export async function deleteInternally(
  deps: VerbDeps,
  at: { readonly kind: Kind; readonly address: Address },
  how: { readonly uid: string; readonly propagationPolicy: string },
): Promise<void> {
  const options = { ...how, graceSeconds: undefined, resourceVersion: "", dryRun: false };
  await deleteOne(toCall(at.kind, at.address), deps, options).catch(ignoreAbsent);
}

/** Which object is kept, by kind and place. */
interface Kept {
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
