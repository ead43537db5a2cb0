// SPDX-License-Identifier: Apache-2.0
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

const CONTROLLER_USER = {
  name: "system:kube-controller-manager",
  groups: ["system:masters", "system:authenticated"],
};

const NEVER = new AbortController().signal;

function toCall(kind: Kind, address: Address, subresource = ""): Call {
  return {
    kind,
    namespace: address.namespace,
    name: address.name,
    subresource,
    query: new URLSearchParams(),
    body: { text: "", contentType: "" },
    user: CONTROLLER_USER,
    representation: { format: "json", as: "object", isPretty: false },
    warnings: [],
    closed: NEVER,
  };
}

function ignoreNotFound(error: unknown): void {
  if (!(error instanceof StatusError && error.code === 404)) {
    throw error;
  }
}

/** Changes the object, or does nothing if it does not exist. Admission treats the write as a write of `subresource`. */
export async function changeInternally(
  deps: VerbDeps,
  target: { readonly kind: Kind; readonly address: Address; readonly subresource?: string },
  edit: (object: KubeObject) => KubeObject,
): Promise<void> {
  const change = { part: "all", edit } as const;
  await changeObject(toCall(target.kind, target.address, target.subresource), deps, change).catch(
    ignoreNotFound,
  );
}

/** Deletes the object, or does nothing if it does not exist. An empty `uid` matches any object of that name. */
export async function deleteInternally(
  deps: VerbDeps,
  target: { readonly kind: Kind; readonly address: Address },
  deletion: { readonly uid: string; readonly propagationPolicy: string },
): Promise<void> {
  const options = { ...deletion, graceSeconds: undefined, resourceVersion: "", dryRun: false };
  await deleteOne(toCall(target.kind, target.address), deps, options).catch(ignoreNotFound);
}

interface ObjectKey {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

function newObject(key: ObjectKey, deps: VerbDeps): KubeObject {
  const { kind, namespace, name } = key;
  const metadata: Meta = {
    name,
    ...(namespace === "" ? {} : { namespace }),
    uid: deps.random.uid(),
    creationTimestamp: rfc3339(deps.clock.now()),
  };
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, metadata };
}

/** Creates or updates the object, bypassing admission. */
export function ensureObject(
  transaction: Transaction,
  key: ObjectKey,
  deps: VerbDeps,
  edit: (object: KubeObject, isNew: boolean) => void,
): void {
  const address = { bucket: bucketOf(key.kind), namespace: key.namespace, name: key.name };
  const stored = transaction.find(address);
  const object = stored?.copy() ?? newObject(key, deps);
  edit(object, stored === undefined);
  if (stored === undefined || !equalJson(object, stored.view())) {
    transaction.put(address, object);
  }
}
