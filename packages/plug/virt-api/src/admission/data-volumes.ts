// SPDX-License-Identifier: Apache-2.0
// Whether a DataVolume may be stored on a standalone machine, which fills claims itself. On a cluster only CDI judges them.
import { isEqual, readDataVolume } from "@patchbay/core";
import { fieldsOf, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";

function specOf(object: unknown): unknown {
  return fieldsOf(object)["spec"];
}

/** The verdict on a DataVolume. Source of the immutable specification: CDI datavolume-validate. */
export function judgeDataVolume(request: AdmissionRequest): Verdict {
  const { namespace, operation, object, oldObject } = request;
  const spec = specOf(object);
  if (operation === "CREATE") {
    const read = readDataVolume(spec, namespace);
    return toVerdict("causes" in read ? read.causes : []);
  }
  if (isEqual(spec, specOf(oldObject))) return toVerdict([]);
  const message =
    "spec: the specification of a DataVolume cannot be changed; delete it, and create it again";
  return toVerdict([{ reason: "FieldValueForbidden", field: "spec", message }]);
}
