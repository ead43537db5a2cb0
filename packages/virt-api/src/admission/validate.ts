// SPDX-License-Identifier: Apache-2.0
// POST /validate: whether an object may be stored.
import type { Deps } from "../call.ts";
import { ALLOWED, type AdmissionRequest, type Verdict } from "./review.ts";
import { findSubject } from "./subject.ts";
import { validateVm } from "./vm.ts";
import { validateVmi } from "./vmi.ts";

/** Judges a request by its kind. The schema was checked before. */
export function validate(deps: Deps, request: AdmissionRequest): Promise<Verdict> {
  const subject = findSubject(request.kind, request.object);
  const old = findSubject(request.kind, request.oldObject);
  if (subject?.kind === "vm") {
    return validateVm(deps, request, {
      vm: subject.vm,
      old: old?.kind === "vm" ? old.vm : undefined,
    });
  }
  if (subject?.kind === "vmi") {
    return validateVmi(deps, request, {
      vmi: subject.vmi,
      old: old?.kind === "vmi" ? old.vmi : undefined,
    });
  }
  return Promise.resolve(ALLOWED);
}
