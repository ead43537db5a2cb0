// SPDX-License-Identifier: Apache-2.0
// Refuses claims that wait for the upload of an image, unless a CDI is installed that takes it. virtctl image-upload pvc
// makes such a claim first, waits five minutes for CDI, and leaves the claim behind. Source: KubeVirt virtctl imageupload.
import { DEFINITIONS_BUCKET } from "../custom/definition.ts";
import { bucketOf } from "../kinds/kind.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../kinds/storage/claim.ts";
import { absentFeature } from "../meta/absent-groups.ts";
import { invalid } from "../meta/status.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { AdmissionQuestion } from "./admission.ts";

const CLAIMS = bucketOf(PERSISTENT_VOLUME_CLAIM);
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
