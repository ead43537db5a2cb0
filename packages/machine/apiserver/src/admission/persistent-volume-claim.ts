// SPDX-License-Identifier: Apache-2.0
// Default storage class of new claims, and rejection of claims that wait for a CDI upload. Source of the former:
// Kubernetes DefaultStorageClass admission.
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
/** Named the class before `spec.storageClassName` existed. */
const BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class";

function ageOf({ metadata }: KubeObject): string {
  return metadata.creationTimestamp ?? "";
}

/**
 * Returns the newest default class; of classes created in the same second, the first by name. Undefined if no class is
 * the default.
 */
function defaultClass(store: Pick<Store, "list">): string | undefined {
  const [first] = store
    .list({ bucket: CLASSES })
    .map((stored) => stored.view())
    .filter(isDefaultClass)
    // The list is sorted by name, and toSorted is stable.
    .toSorted((one, other) => ageOf(other).localeCompare(ageOf(one)));
  return first?.metadata.name;
}

/**
 * Sets the class of a new claim that names none. An empty `storageClassName` explicitly requests no class and is left
 * alone. Changes the object in place.
 */
export function setDefaultStorageClass(request: Mutation, store: Pick<Store, "list">): void {
  const { kind, subresource, operation, object } = request;
  const isNew = subresource === "" && operation === "CREATE";
  if (!isNew || bucketOf(kind) !== CLAIMS) {
    return;
  }
  const spec = fieldsOf(object["spec"]);
  const hasClass =
    spec["storageClassName"] !== undefined ||
    object.metadata.annotations?.[BETA_CLASS_ANNOTATION] !== undefined;
  const name = hasClass ? undefined : defaultClass(store);
  if (name !== undefined) {
    object["spec"] = { ...spec, storageClassName: name };
  }
}

/** Requests an upload through CDI. Source: CDI AnnUploadRequest. */
const UPLOAD_ANNOTATION = "cdi.kubevirt.io/storage.upload.target";
/** The product's own DataVolume definition has this label; it does not implement uploads. */
const PART_OF_LABEL = "app.kubernetes.io/part-of";
const PRODUCT = "patchbay";
/** Installed by CDI, too. */
const CDI_DEFINITION = {
  bucket: DEFINITIONS_BUCKET,
  namespace: "",
  name: "datavolumes.cdi.kubevirt.io",
};

function isForUpload(object: KubeObject | undefined): boolean {
  return object?.metadata.annotations?.[UPLOAD_ANNOTATION] !== undefined;
}

/**
 * Rejects claims that wait for an upload, unless CDI is installed. `virtctl image-upload pvc` creates such a claim,
 * waits five minutes for CDI, and leaves the claim behind. Source: KubeVirt virtctl imageupload.
 * @throws StatusError 422 if a new or changed claim requests an upload
 */
export function rejectUploadClaims(
  { kind, subresource, name, object, oldObject }: AdmissionQuestion,
  store: Pick<Store, "find">,
): void {
  const isClaim = subresource === "" && bucketOf(kind) === CLAIMS;
  if (!isClaim || !isForUpload(object) || isForUpload(oldObject)) return;
  const labels = store.find(CDI_DEFINITION)?.view().metadata.labels ?? { [PART_OF_LABEL]: PRODUCT };
  if (labels[PART_OF_LABEL] !== PRODUCT) return;
  const message = `Patchbay does not have ${absentFeature("cdi.kubevirt.io") ?? ""}`;
  const field = `metadata.annotations[${UPLOAD_ANNOTATION}]`;
  throw invalid(kind, name, [{ reason: "FieldValueNotSupported", field, message }]);
}
