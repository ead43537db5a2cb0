// SPDX-License-Identifier: Apache-2.0
// Admission of a server that is as strict as a cluster's: what is written is not what was sent.
import type { Admission } from "../admission/admission.ts";
import { fillIn } from "./fill-in.ts";

/** The same admission, and then everything filled in. */
export function withFillIn(admission: Admission): Admission {
  return {
    mutate: async (question, complete) => {
      const object = await admission.mutate(question, complete);
      // A Scale or a Binding is never stored.
      return question.bodyKind === undefined ? fillIn(object) : object;
    },
    validate: (question) => admission.validate(question),
    admitDeletion: (question) => admission.admitDeletion(question),
  };
}
