// SPDX-License-Identifier: Apache-2.0
// POST /validate: whether an object may be stored.
import type { Deps } from "../call.ts";
import { refuseForeignNetworks } from "./foreign-networks.ts";
import { guardStatus } from "./node-guard.ts";
import { ALLOWED, type AdmissionRequest, type Verdict } from "./review.ts";
import { findSubject, vmiSpecOf } from "./subject.ts";
import { validateVm } from "./vm.ts";
import { validateVmi } from "./vmi.ts";

/** Judges a request by its kind. The schema was checked before. */
export async function validate(deps: Deps, request: AdmissionRequest): Promise<Verdict> {
  if (request.subresource === "status") return guardStatus(request);
  const subject = findSubject(request.kind, request.object);
  if (subject === undefined) return ALLOWED;
  const old = findSubject(request.kind, request.oldObject);
  const specs = { spec: vmiSpecOf(subject), old: old === undefined ? undefined : vmiSpecOf(old) };
  const refusal = await refuseForeignNetworks(deps, request, specs);
  if (refusal !== undefined) return refusal;
  return subject.kind === "vm"
    ? validateVm(deps, request, { vm: subject.vm, old: old?.kind === "vm" ? old.vm : undefined })
    : validateVmi(deps, request, {
        vmi: subject.vmi,
        old: old?.kind === "vmi" ? old.vmi : undefined,
      });
}
