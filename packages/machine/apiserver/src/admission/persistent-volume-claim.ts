// SPDX-License-Identifier: Apache-2.0
// Admission of PersistentVolumeClaims: default storage class, and no uploads without CDI.
import { DEFINITIONS_BUCKET } from "../custom/definition.ts";
import { bucketOf } from "../kinds/kind.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../kinds/storage/claim.ts";
import { STORAGE_CLASS, isDefaultClass } from "../kinds/storage/storage-class.ts";
import { absentFeature } from "../meta/absent-groups.ts";
import { invalid } from "../meta/status.ts";
import { fieldsOf } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { AdmissionQuestion, Mutation } from "./admission.ts";

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

/** Asks CDI for an upload. Source: CDI AnnUploadRequest. */
const UPLOAD = "cdi.kubevirt.io/storage.upload.target";
/** Label and value of the machine's own definition, by which it takes no uploads. */
const PART_OF = "app.kubernetes.io/part-of";
const PRODUCT = "patchbay";
/** Installed with CDI too. */
const CDI_DEFINITION = {
  bucket: DEFINITIONS_BUCKET,
  namespace: "",
  name: "datavolumes.cdi.kubevirt.io",
};

function isForUpload(object: KubeObject | undefined): boolean {
  return object?.metadata.annotations?.[UPLOAD] !== undefined;
}

/** Throws a StatusError for a claim that begins to wait for an upload. */
export function refuseUploadClaims(
  { kind, subresource, name, object, oldObject }: AdmissionQuestion,
  store: Pick<Store, "find">,
): void {
  const isClaim = subresource === "" && bucketOf(kind) === CLAIMS;
  if (!isClaim || !isForUpload(object) || isForUpload(oldObject)) return;
  const labels = store.find(CDI_DEFINITION)?.view().metadata.labels ?? { [PART_OF]: PRODUCT };
  if (labels[PART_OF] !== PRODUCT) return;
  const message = `Patchbay does not have ${absentFeature("cdi.kubevirt.io") ?? ""}`;
  const field = `metadata.annotations[${UPLOAD}]`;
  throw invalid(kind, name, [{ reason: "FieldValueNotSupported", field, message }]);
}
