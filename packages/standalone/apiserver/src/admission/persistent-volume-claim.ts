// SPDX-License-Identifier: Apache-2.0
import { DEFINITIONS_BUCKET } from "../custom/definition.ts";
import { bucketOf } from "../kinds/kind.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../kinds/storage/persistent-volume-claim.ts";
import { STORAGE_CLASS, isDefaultClass } from "../kinds/storage/storage-class.ts";
import { findMissingFeature } from "../meta/unserved-groups.ts";
import { invalid } from "../meta/status.ts";
import { asFields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { AdmissionRequest, Mutation } from "./admission.ts";

const CLAIMS = bucketOf(PERSISTENT_VOLUME_CLAIM);
const CLASSES = bucketOf(STORAGE_CLASS);
/** Deprecated annotation for the storage class. `spec.storageClassName` replaces the annotation. */
const BETA_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class";

function findCreationTime({ metadata }: KubeObject): string {
  return metadata.creationTimestamp ?? "";
}

/** Returns the newest default class. Among equally new classes, returns the alphabetically first class. */
function findDefaultClass(store: Pick<Store, "list">): string | undefined {
  const [newestClass] = store
    .list({ bucket: CLASSES })
    .map((stored) => stored.view())
    .filter(isDefaultClass)
    // The list is sorted by name, and toSorted is stable.
    .toSorted((left, right) => findCreationTime(right).localeCompare(findCreationTime(left)));
  return newestClass?.metadata.name;
}

/** Sets the default storage class in a new claim without a class. Source: Kubernetes DefaultStorageClass. */
export function setDefaultStorageClass(request: Mutation, store: Pick<Store, "list">): void {
  const { kind, subresource, operation, object } = request;
  const isNew = subresource === "" && operation === "CREATE";
  if (!isNew || bucketOf(kind) !== CLAIMS) {
    return;
  }
  const spec = asFields(object["spec"]);
  const hasClass =
    spec["storageClassName"] !== undefined ||
    object.metadata.annotations?.[BETA_CLASS_ANNOTATION] !== undefined;
  const name = hasClass ? undefined : findDefaultClass(store);
  if (name !== undefined) {
    object["spec"] = { ...spec, storageClassName: name };
  }
}

/** Annotation of claims for uploads. Source: CDI AnnUploadRequest. */
const UPLOAD_ANNOTATION = "cdi.kubevirt.io/storage.upload.target";
/**
 * Label that distinguishes two CustomResourceDefinitions of DataVolumes. Patchbay's definition has the value `patchbay` and does not
 * support uploads. CDI's definition does not have this value.
 */
const PART_OF_LABEL = "app.kubernetes.io/part-of";
const PRODUCT = "patchbay";
const CDI_DEFINITION = {
  bucket: DEFINITIONS_BUCKET,
  namespace: "",
  name: "datavolumes.cdi.kubevirt.io",
};

function isForUpload(object: KubeObject | undefined): boolean {
  return object?.metadata.annotations?.[UPLOAD_ANNOTATION] !== undefined;
}

/**
 * Rejects claims for uploads if CDI is missing. `virtctl image-upload pvc` would otherwise wait five minutes for CDI
 * and leave the claim behind. Source: KubeVirt virtctl imageupload.
 */
export function rejectUploadClaims(
  { kind, subresource, name, object, oldObject }: AdmissionRequest,
  store: Pick<Store, "find">,
): void {
  const isClaim = subresource === "" && bucketOf(kind) === CLAIMS;
  if (!isClaim || !isForUpload(object) || isForUpload(oldObject)) return;
  const labels = store.find(CDI_DEFINITION)?.view().metadata.labels ?? { [PART_OF_LABEL]: PRODUCT };
  if (labels[PART_OF_LABEL] !== PRODUCT) return;
  const message = `Patchbay does not have ${findMissingFeature("cdi.kubevirt.io") ?? ""}`;
  const field = `metadata.annotations[${UPLOAD_ANNOTATION}]`;
  throw invalid(kind, name, [{ reason: "FieldValueNotSupported", field, message }]);
}
