// SPDX-License-Identifier: Apache-2.0
// Whether a VM may be stored.
import {
  validateVmSpec,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { findByName, ifacesOf, isEqual, isOwnedBy, messageOf } from "@patchbay/core";
import type { Deps } from "../call.ts";
import { capacityWarnings } from "./capacity.ts";
import { ALLOWED, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";
import { twinCauses } from "./twins.ts";
import { warningsFor, type Specs } from "./warnings.ts";

/** The account under which virt-api itself writes. */
const OWN_ACCOUNT = "system:serviceaccount:patchbay:virt-api";

/** The VM's VMI, where the edit adds an iface to it. */
async function findLiveVmi(
  deps: Deps,
  vm: VirtualMachine,
  { spec, old }: Specs,
): Promise<VirtualMachineInstance | undefined> {
  const adds = ifacesOf(spec).some(
    ({ name }) => findByName(ifacesOf(old ?? spec), name) === undefined,
  );
  if (!adds) return undefined;
  const { name, namespace = "" } = vm.metadata;
  try {
    const vmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, { namespace, name });
    return vmi !== undefined && isOwnedBy(vmi, vm) ? vmi : undefined;
  } catch (error) {
    // A warning less does no harm.
    deps.log.warn("cannot look for the VMI", { vm: `${namespace}/${name}`, err: messageOf(error) });
    return undefined;
  }
}

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
  if (causes.length > 0 || request.user.name === OWN_ACCOUNT) return toVerdict(causes, []);
  const vmi = await findLiveVmi(deps, vm, specs);
  return toVerdict(
    [],
    [...(await warningsFor(deps, specs, namespace)), ...capacityWarnings(vmi, spec)],
  );
}
