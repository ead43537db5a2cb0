// SPDX-License-Identifier: Apache-2.0
// Which class does a claim get that names none? Source: Kubernetes DefaultStorageClass admission.
import { bucketOf } from "../kinds/kind.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../kinds/storage/claim.ts";
import { STORAGE_CLASS, isDefaultClass } from "../kinds/storage/storage-class.ts";
import { fieldsOf } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { Mutation } from "./admission.ts";

const CLAIMS = bucketOf(PERSISTENT_VOLUME_CLAIM);
const CLASSES = bucketOf(STORAGE_CLASS);
/** Named the class before there was a field for it. */
const OLD_ANNOTATION = "volume.beta.kubernetes.io/storage-class";

function ageOf({ metadata }: KubeObject): string {
  return metadata.creationTimestamp ?? "";
}

/** The newest default class, and the first by name of those made in the same second. Unset without a default class. */
function defaultClass(store: Pick<Store, "list">): string | undefined {
  const [first] = store
    .list({ bucket: CLASSES })
    .map((stored) => stored.view())
    .filter(isDefaultClass)
    // The list is sorted by name, and sorting keeps the order of those of one age.
    .toSorted((one, other) => ageOf(other).localeCompare(ageOf(one)));
  return first?.metadata.name;
}

/** Sets the class of a new claim that names none; the empty name is a class: none. Changes the object. */
export function giveStorageClass(question: Mutation, store: Pick<Store, "list">): void {
  const { kind, subresource, operation, object } = question;
  const isNew = subresource === "" && operation === "CREATE";
  if (!isNew || bucketOf(kind) !== CLAIMS) {
    return;
  }
  const spec = fieldsOf(object["spec"]);
  const isAsked =
    spec["storageClassName"] !== undefined ||
    object.metadata.annotations?.[OLD_ANNOTATION] !== undefined;
  const name = isAsked ? undefined : defaultClass(store);
  if (name !== undefined) {
    object["spec"] = { ...spec, storageClassName: name };
  }
}
