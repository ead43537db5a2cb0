// SPDX-License-Identifier: Apache-2.0
// Validation of VMs and VMIs against the state of the cluster.
import {
  isAbsent,
  names,
  startsAutomatically,
  validateVmChange,
  VIRTUAL_MACHINE_INSTANCES,
  validateVmName,
  type Cause,
  type NetworkConfig,
  type VirtualMachine,
  type VirtualMachineInstance,
  validateVmiNetworkChange,
  validateVmiChange,
} from "@patchbay/api";
import { findByName, ifacesOf, pciAddressCauses } from "@patchbay/core/nics";
import {
  isOver,
  pluggedBindingCauses,
  fixedNetworkCauses,
  unpluggableCauses,
  refuseVmiChange,
} from "@patchbay/core/requests";
import { isOwnedBy, vmiOf, findOwnerVm } from "@patchbay/core/vm";
import { validateMatchers } from "@patchbay/core/instancetype";
import { messageOf } from "@patchbay/base";
import type { Deps } from "../deps.ts";
import { expandVm } from "../expansion.ts";
import {
  listCapacityWarnings,
  listDataVolumeWarnings,
  listFieldWarnings,
  listMissingNetworkWarnings,
} from "./warnings.ts";
import { ALLOWED, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";
import { listTwinCauses, listTwinWarnings, type TwinCheck } from "./twins.ts";
import type { Specs } from "./new-networks.ts";

const BASE = "spec.template.spec";
const OWN_ACCOUNT = `${names.SERVICE_ACCOUNT_PREFIX}virt-api`;

interface Vms {
  readonly vm: VirtualMachine;
  readonly old: VirtualMachine | undefined;
}

/** Both with instancetype and preference applied. `causes` holds conflicts that the stored VM did not have. */
interface ExpandedVms extends Vms {
  readonly causes: readonly Cause[];
}

/** Skips expansion for Patchbay's own services, which validated the VM or copied it. */
async function expandBoth(deps: Deps, vms: Vms, isService: boolean): Promise<ExpandedVms> {
  if (isService) return { ...vms, causes: [] };
  const [expanded, before] = await Promise.all([
    expandVm(deps.store, vms.vm),
    vms.old && expandVm(deps.store, vms.old),
  ]);
  const known = new Set(before?.causes.map(({ message }) => message));
  const causes = expanded.causes.filter(({ message }) => !known.has(message));
  return { vm: expanded.vm, old: before?.vm, causes };
}

function addsIface({ spec, old = spec }: Specs): boolean {
  return ifacesOf(spec).some(({ name }) => {
    const before = findByName(ifacesOf(old), name);
    return before === undefined || isAbsent(before);
  });
}

async function findVmiToPlug(
  deps: Deps,
  vm: VirtualMachine,
  specs: Specs,
): Promise<VirtualMachineInstance | undefined> {
  if (deps.networkConfig().isStaged || !addsIface(specs)) return undefined;
  const { name, namespace = "" } = vm.metadata;
  try {
    const vmi = await deps.cachedReader.find(VIRTUAL_MACHINE_INSTANCES, { namespace, name });
    return vmi !== undefined && isOwnedBy(vmi, vm) && !isOver(vmi) ? vmi : undefined;
  } catch (error) {
    // The VMI is needed for a warning only, and virt-controller checks again before it plugs.
    deps.log.warn("cannot look up the VMI", { vm: `${namespace}/${name}`, err: messageOf(error) });
    return undefined;
  }
}

function listAddressCauses({ vm, old }: Vms, config: NetworkConfig): readonly Cause[] {
  const buildVmi = (each: VirtualMachine): VirtualMachineInstance => vmiOf(each, config.bindings);
  return pciAddressCauses({ vmi: buildVmi(vm), base: BASE }, old && buildVmi(old), config);
}

function buildTwinCheck(deps: Deps, { namespace }: AdmissionRequest, vms: Vms): TwinCheck {
  const { vm, old } = vms;
  const { name } = vm.metadata;
  const hasGuest = deps.hasGuest({ namespace, name });
  return {
    namespace,
    name,
    base: BASE,
    ...specsOf(vms),
    isHalted: !hasGuest && !startsAutomatically(vm),
    wasHalted: old !== undefined && !hasGuest && !startsAutomatically(old),
  };
}

/** `vmi`: the running guest that the update would affect. */
function listCauses(
  deps: Deps,
  request: AdmissionRequest,
  { vm, old, vmi }: Vms & { readonly vmi: VirtualMachineInstance | undefined },
): readonly Cause[] {
  const { spec } = vm.spec.template;
  const before = old?.spec.template.spec;
  const config = deps.networkConfig();
  const { bindings } = config;
  return [
    ...(old === undefined ? validateVmName(vm.metadata.name) : []),
    ...validateVmChange(old?.spec, vm.spec),
    ...(vmi === undefined
      ? []
      : pluggedBindingCauses({ before: before ?? vmi.spec, after: spec, base: BASE }, bindings)),
    ...listAddressCauses({ vm, old }, config),
    ...listTwinCauses(deps, buildTwinCheck(deps, request, { vm, old })),
  ];
}

function specsOf({ vm, old }: Vms): Specs {
  return { spec: vm.spec.template.spec, old: old?.spec.template.spec };
}

async function listWarnings(
  deps: Deps,
  request: AdmissionRequest,
  { vm, old, vmi }: Vms & { readonly vmi: VirtualMachineInstance | undefined },
): Promise<readonly string[]> {
  const { namespace } = request;
  const config = deps.networkConfig();
  const specs = specsOf({ vm, old });
  return [
    ...listTwinWarnings(deps, buildTwinCheck(deps, request, { vm, old })),
    ...listFieldWarnings({ kind: "vm", vm }, old && { kind: "vm", vm: old }, config),
    ...(await listDataVolumeWarnings(deps, { spec: vm.spec, old: old?.spec })),
    ...(await listMissingNetworkWarnings(deps, specs, namespace)),
    ...listCapacityWarnings(vmi, specs.spec, config.bindings),
  ];
}

/** Does not report causes that existed before the update. */
export async function validateVm(
  deps: Deps,
  request: AdmissionRequest,
  vms: Vms,
): Promise<Verdict> {
  const { vm, old } = vms;
  if (vm.metadata.deletionTimestamp !== undefined) return ALLOWED;
  const matchers = validateMatchers(vm, old);
  if (matchers.length > 0) return toVerdict(matchers);
  const { name } = request.user;
  const expanded = await expandBoth(deps, vms, name.startsWith(names.SERVICE_ACCOUNT_PREFIX));
  // virt-api validated subresource requests already.
  const isOwn = name === OWN_ACCOUNT;
  const vmi = isOwn ? undefined : await findVmiToPlug(deps, vm, specsOf(expanded));
  const causes = [...expanded.causes, ...listCauses(deps, request, { ...expanded, vmi })];
  if (causes.length > 0 || isOwn) return toVerdict(causes, []);
  return toVerdict([], await listWarnings(deps, request, { ...expanded, vmi }));
}

interface Vmis {
  readonly vmi: VirtualMachineInstance;
  readonly old: VirtualMachineInstance | undefined;
}

function findRestriction({ user }: AdmissionRequest, { vmi, old }: Vmis): Verdict | undefined {
  const refusal = old && refuseVmiChange({ old, vmi, user: user.name });
  return refusal && { allowed: false, ...refusal };
}

/** Does not report causes that existed before the update. */
export async function validateVmi(
  deps: Deps,
  request: AdmissionRequest,
  vmis: Vmis,
): Promise<Verdict> {
  const { vmi, old } = vmis;
  if (vmi.metadata.deletionTimestamp !== undefined) return ALLOWED;
  const restriction = findRestriction(request, vmis);
  if (restriction !== undefined) return restriction;
  const specs = { spec: vmi.spec, old: old?.spec };
  const { namespace } = request;
  const isOwned = findOwnerVm(vmi) !== undefined;
  const check = { ...specs, namespace, name: vmi.metadata.name, base: "spec" };
  const config = deps.networkConfig();
  const { bindings } = config;
  const causes = [
    ...validateVmiChange(old?.spec, vmi.spec),
    ...(old === undefined
      ? validateVmName(vmi.metadata.name)
      : [
          ...validateVmiNetworkChange(old.spec, vmi.spec),
          ...pluggedBindingCauses({ before: old.spec, after: vmi.spec, base: "spec" }, bindings),
          ...unpluggableCauses({ before: old.spec, after: vmi.spec, base: "spec" }, bindings),
          ...fixedNetworkCauses({ before: old.spec, after: vmi.spec, base: "spec" }, bindings),
        ]),
    // MACs and PCI addresses of an owned VMI were validated with its VM.
    ...(isOwned
      ? []
      : [...pciAddressCauses({ vmi, base: "spec" }, old, config), ...listTwinCauses(deps, check)]),
  ];
  if (causes.length > 0 || isOwned) return toVerdict(causes, []);
  return toVerdict(
    [],
    [
      ...listTwinWarnings(deps, check),
      ...listFieldWarnings({ kind: "vmi", vmi }, old && { kind: "vmi", vmi: old }, config),
      ...(await listMissingNetworkWarnings(deps, specs, namespace)),
      ...listCapacityWarnings(vmi, vmi.spec, bindings),
    ],
  );
}
