// SPDX-License-Identifier: Apache-2.0
// POST /validate: whether an object may be stored.
import { NETWORK_ATTACHMENT_DEFINITIONS, PODS } from "@patchbay/api";
import type { Deps } from "../deps.ts";
import { judgeByKind } from "./instancetypes.ts";
import { judgeLeaving } from "./migrations.ts";
import { guardLauncher } from "./guards/launcher-guard.ts";
import { warnOfDefinition } from "./warnings/network-definition.ts";
import { refuseForeignNetworks } from "./new-networks.ts";
import { guardStatus } from "./guards/node-guard.ts";
import { ALLOWED, type AdmissionRequest, type Verdict } from "./review.ts";
import { findSubject, isUnchanged, vmiSpecOf, type Subject } from "./subject.ts";
import { validateVm } from "./vm.ts";
import { validateVmi } from "./vmi.ts";

function judge(
  deps: Deps,
  request: AdmissionRequest,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Promise<Verdict> {
  if (subject.kind === "vm") {
    const { vm } = subject;
    return validateVm(deps, request, { vm, old: old?.kind === "vm" ? old.vm : undefined });
  }
  const { vmi } = subject;
  return validateVmi(deps, request, { vmi, old: old?.kind === "vmi" ? old.vmi : undefined });
}

/** Judges a request by its kind. The schema was checked before. */
export async function validate(deps: Deps, request: AdmissionRequest): Promise<Verdict> {
  if (request.subresource === "status") return guardStatus(deps, request);
  if (request.kind === NETWORK_ATTACHMENT_DEFINITIONS.kind) return warnOfDefinition(request);
  if (request.kind === PODS.kind) return guardLauncher(request);
  const verdict = judgeByKind(request) ?? (await judgeLeaving(deps, request));
  if (verdict !== undefined) return verdict;
  const subject = findSubject(request.kind, request.object);
  if (subject === undefined) return ALLOWED;
  const old = findSubject(request.kind, request.oldObject);
  if (isUnchanged(subject, old)) return ALLOWED;
  const specs = { spec: vmiSpecOf(subject), old: old === undefined ? undefined : vmiSpecOf(old) };
  const refusal = await refuseForeignNetworks(deps, request, specs);
  return refusal ?? judge(deps, request, { subject, old });
}
