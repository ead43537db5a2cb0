// SPDX-License-Identifier: Apache-2.0
// Writes that the server makes itself: they go through the same rules as everyone's.
import { StatusError } from "../meta/status.ts";
import type { Kind } from "../kinds/kind.ts";
import type { Address, KubeObject } from "../objects/object.ts";
import type { Call } from "../verbs/call.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { changeObject } from "../verbs/change.ts";
import { deleteOne } from "../verbs/delete.ts";

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
