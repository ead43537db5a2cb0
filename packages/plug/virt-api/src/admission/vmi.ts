// SPDX-License-Identifier: Apache-2.0
// Whether a VMI may be stored; who may change it, core says.
import {
  validateVmiNetworkChange,
  validateVmiChange,
  vmNameCauses,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  fixedNetworkCauses,
  ownerVmOf,
  pciAddressCauses,
  pluggedBindingCauses,
  unpluggableCauses,
  refuseVmiChange,
} from "@patchbay/core";
import type { Deps } from "../deps.ts";
import { capacityWarnings } from "./warnings/capacity.ts";
import { ALLOWED, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";
import { twinCauses, twinWarnings } from "./twins.ts";
import { unactedWarnings } from "./warnings/unacted.ts";
import { missingNetworkWarnings } from "./warnings/missing-networks.ts";

/** A VMI and what was stored before. */
interface Vmis {
  readonly vmi: VirtualMachineInstance;
  readonly old: VirtualMachineInstance | undefined;
}

function restrictionOf({ user }: AdmissionRequest, { vmi, old }: Vmis): Verdict | undefined {
  const refusal = old && refuseVmiChange({ old, vmi, user: user.name });
  return refusal && { allowed: false, ...refusal };
}

/** Judges a VMI; what was stored before and is not changed is not judged again. */
export async function validateVmi(
  deps: Deps,
  request: AdmissionRequest,
  vmis: Vmis,
): Promise<Verdict> {
  const { vmi, old } = vmis;
  if (vmi.metadata.deletionTimestamp !== undefined) return ALLOWED;
  const restriction = restrictionOf(request, vmis);
  if (restriction !== undefined) return restriction;
  const specs = { spec: vmi.spec, old: old?.spec };
  const { namespace } = request;
  const isOwned = ownerVmOf(vmi) !== undefined;
  const question = { ...specs, namespace, name: vmi.metadata.name, base: "spec" };
  const config = deps.networkConfig();
  const { bindings } = config;
  const causes = [
    ...validateVmiChange(old?.spec, vmi.spec),
    ...(old === undefined
      ? vmNameCauses(vmi.metadata.name)
      : [
          ...validateVmiNetworkChange(old.spec, vmi.spec),
          ...pluggedBindingCauses({ before: old.spec, after: vmi.spec, base: "spec" }, bindings),
          ...unpluggableCauses({ before: old.spec, after: vmi.spec, base: "spec" }, bindings),
          ...fixedNetworkCauses({ before: old.spec, after: vmi.spec, base: "spec" }, bindings),
        ]),
    // The MACs and addresses of a VM were judged when the VM was stored.
    ...(isOwned
      ? []
      : [...pciAddressCauses({ vmi, base: "spec" }, old, config), ...twinCauses(deps, question)]),
  ];
  if (causes.length > 0 || isOwned) return toVerdict(causes, []);
  return toVerdict(
    [],
    [
      ...twinWarnings(deps, question),
      ...unactedWarnings({ kind: "vmi", vmi }, old && { kind: "vmi", vmi: old }, config),
      ...(await missingNetworkWarnings(deps, specs, namespace)),
      ...capacityWarnings(vmi, vmi.spec, bindings),
    ],
  );
}
