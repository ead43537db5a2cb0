// SPDX-License-Identifier: Apache-2.0
// Admission of a server that is as strict as a cluster's: what is written is not what was sent, and owners are asked for.
import type { Admission } from "../admission/admission.ts";
import { fillIn } from "./fill-in.ts";
import { dropImageVolumes } from "./image-volumes.ts";
import { managedFieldsOf } from "./managed-fields.ts";
import { checkOwnerRights, type OwnerRightsDeps } from "./owner-rights.ts";

/** The same admission, with everything filled in and rights on owners asked for. */
export function strictAdmission(admission: Admission, deps: OwnerRightsDeps): Admission {
  return {
    mutate: async (question, complete) => {
      const object = await admission.mutate(question, complete);
      const dropped = dropImageVolumes(object).map((path) => `unknown field "${path}"`);
      question.warnings.push(...dropped);
      // A Scale or a Binding is never stored.
      return question.bodyKind === undefined ? fillIn(object) : object;
    },
    validate: async (question) => {
      checkOwnerRights(question, deps);
      return admission.validate(question);
    },
    admitDeletion: (question) => admission.admitDeletion(question),
  };
}

/** The same admission, with the managers of fields recorded in what is stored, and nothing else filled in. */
export function recordManagers(admission: Admission): Admission {
  return {
    mutate: async (question, complete) => {
      const object = await admission.mutate(question, complete);
      if (question.bodyKind === undefined) object.metadata.managedFields = managedFieldsOf(object);
      return object;
    },
    validate: (question) => admission.validate(question),
    admitDeletion: (question) => admission.admitDeletion(question),
  };
}
