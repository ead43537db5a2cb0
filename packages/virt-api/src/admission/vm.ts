// SPDX-License-Identifier: Apache-2.0
// Whether a VM may be stored.
import { validateVmSpec, type VirtualMachine } from "@patchbay/api";
import { isEqual } from "@patchbay/core";
import type { Deps } from "../call.ts";
import { ALLOWED, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";
import { twinCauses } from "./twins.ts";
import { warningsFor } from "./warnings.ts";

/** The account under which virt-api itself writes. */
const OWN_ACCOUNT = "system:serviceaccount:patchbay:virt-api";

/** Judges a VM; what was stored before and is not changed is not judged again. */
export async function validateVm(
  deps: Deps,
  request: AdmissionRequest,
  vms: { readonly vm: VirtualMachine; readonly old: VirtualMachine | undefined },
): Promise<Verdict> {
  const { vm, old } = vms;
  if (vm.metadata.deletionTimestamp !== undefined || isEqual(vm.spec, old?.spec)) return ALLOWED;
  const { namespace } = request;
  const spec = vm.spec.template.spec;
  const specs = { spec, old: old?.spec.template.spec };
  const causes = [
    ...validateVmSpec(vm.spec, request.operation === "CREATE" ? "create" : "update"),
    ...twinCauses(deps, {
      ...specs,
      namespace,
      name: vm.metadata.name,
      base: "spec.template.spec",
    }),
  ];
  // Whoever asked virt-api for a network was told there whether it exists.
  const warns = causes.length === 0 && request.user.name !== OWN_ACCOUNT;
  return toVerdict(causes, warns ? await warningsFor(deps, specs, namespace) : []);
}
