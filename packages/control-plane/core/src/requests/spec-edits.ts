// SPDX-License-Identifier: Apache-2.0
// Admission of changes to the NICs of VMs and VMIs with a running guest.
import {
  isAbsent,
  isDefaultNetwork,
  names,
  type BindingRegistry,
  type Iface,
  type VmiSpec,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { Cause } from "@patchbay/api/kubernetes";
import { ifacePath, type FieldProblem } from "@patchbay/api/validate";
import { resolveBindingIn } from "../nics/bindings/resolve-binding.ts";
import { findByName, ifacesOf, nicsOf, withNics, type Nics } from "../nics/nics.ts";
import { findNetworkSwap } from "../nics/spec-plan.ts";
import { isEqual } from "@patchbay/base";
import { findOwnerVm } from "../vm/vm.ts";

interface SpecEdit {
  readonly before: VmiSpec;
  readonly after: VmiSpec;
  readonly base: string;
}

function isPluggedByEdit({ name }: Iface, oldSpec: VmiSpec): boolean {
  const oldIface = findByName(ifacesOf(oldSpec), name);
  return oldIface === undefined || isAbsent(oldIface);
}

function listCauses(
  { before, after, base }: SpecEdit,
  findProblem: (iface: Iface) => FieldProblem | undefined,
): readonly Cause[] {
  return ifacesOf(after).flatMap((iface, index): readonly Cause[] => {
    if (isAbsent(iface) || !isPluggedByEdit(iface, before)) return [];
    const problem = findProblem(iface);
    if (problem === undefined) return [];
    const field = `${ifacePath(base, index)}.${problem.field}`;
    return [{ reason: "FieldValueNotSupported", field, message: problem.message }];
  });
}

/** Reason why a binding with a hook cannot be plugged into a running guest. Callers put the subject before it, for example `binding`. */
export const NEEDS_START =
  "has a hook, which is called only when the guest starts and cannot join a running pod; add the interface to the VM's specification, or while the VM is stopped";

export function listNewIfaceBindingCauses(
  edit: SpecEdit,
  registry: BindingRegistry,
): readonly Cause[] {
  return listCauses(edit, (iface) => {
    const binding = resolveBindingIn(edit.after, iface, registry);
    return binding.kind === "refused" ? binding : undefined;
  });
}

/** Reports new interfaces whose binding has a hook, because hooks are called only when the guest starts. */
export function listNewIfaceHookCauses(
  edit: SpecEdit,
  registry: BindingRegistry,
): readonly Cause[] {
  return listCauses(edit, (iface) => {
    const binding = resolveBindingIn(edit.after, iface, registry);
    const hasHook = binding.kind !== "refused" && binding.hasHook === true;
    return hasHook ? { field: "binding", message: NEEDS_START } : undefined;
  });
}

/** Checks whether the interface exists in all specs and is not marked as absent in any of them. */
function isRetained(nics: readonly Nics[], name: string): boolean {
  const ifaces = nics.map((sides) => findByName(sides.ifaces, name));
  return ifaces.every((iface) => iface !== undefined && !isAbsent(iface));
}

export function listLiveNetworkChangeCauses(
  { before, after, base }: SpecEdit,
  bindings: BindingRegistry,
): readonly Cause[] {
  const [actual, desired] = [nicsOf(before), nicsOf(after)];
  return desired.networks.flatMap((network, index): readonly Cause[] => {
    const { name, multus, resourceClaim } = network;
    const oldNetwork = findByName(actual.networks, name);
    // Ignores the default network, whose changes another rule reports.
    if (
      oldNetwork === undefined ||
      isDefaultNetwork(oldNetwork) ||
      !isRetained([actual, desired], name)
    )
      return [];
    const isSame =
      multus?.networkName === oldNetwork.multus?.networkName &&
      isEqual(resourceClaim, oldNetwork.resourceClaim) &&
      !isDefaultNetwork(network);
    if (isSame || findNetworkSwap({ desired, actual, bindings }, name) !== undefined) return [];
    const message = `network '${name}' cannot be changed while the VMI runs: only an interface with binding bridge can be swapped to another secondary network; remove the interface and add it again`;
    return [
      { reason: "FieldValueForbidden", field: `${base}.networks[${String(index)}]`, message },
    ];
  });
}

interface VmiChange {
  readonly old: VirtualMachineInstance;
  readonly vmi: VirtualMachineInstance;
  readonly user: string;
}

interface VmiChangeRefusal {
  readonly code: 403 | 422;
  readonly message: string;
  readonly causes: readonly Cause[];
}

const NIC_WRITER = `${names.SERVICE_ACCOUNT_PREFIX}virt-controller`;

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function buildEquivalentCommand(
  vmName: string,
  { metadata, spec }: VirtualMachineInstance,
): string {
  const { networks, ifaces } = nicsOf(spec);
  const template = { spec: { networks, domain: { devices: { interfaces: ifaces } } } };
  const patch = JSON.stringify({ spec: { template } });
  return `kubectl patch vm ${vmName} -n ${metadata.namespace ?? ""} --type merge -p ${shellQuote(patch)}`;
}

function refuseOwned(vmName: string, vmi: VirtualMachineInstance): VmiChangeRefusal {
  const command = buildEquivalentCommand(vmName, vmi);
  const message = `the VM ${vmName} decides the networks and interfaces of this VMI; change the VM instead: ${command}`;
  return { code: 403, message, causes: [] };
}

const RESTRICTED_MESSAGE = "update of VMI object is restricted";
/** Refusal of changes to non-NIC fields, which take effect only at a start. Source: KubeVirt vmi-update-admitter.go. */
const RESTRICTED_REFUSAL: VmiChangeRefusal = {
  code: 422,
  message: RESTRICTED_MESSAGE,
  causes: [{ reason: "FieldValueNotSupported", field: "spec", message: RESTRICTED_MESSAGE }],
};

function withoutNics(spec: VmiSpec): VmiSpec {
  return withNics(spec, [], []);
}

/** Allows all changes by virt-controller. Refuses NIC changes if a VM owns the VMI. Only Patchbay's services may change other fields. */
export function refuseVmiChange({ old, vmi, user }: VmiChange): VmiChangeRefusal | undefined {
  if (user === NIC_WRITER) return undefined;
  const owner = findOwnerVm(old)?.name;
  if (owner !== undefined && !isEqual(nicsOf(vmi.spec), nicsOf(old.spec))) {
    return refuseOwned(owner, vmi);
  }
  const isService = user.startsWith(names.SERVICE_ACCOUNT_PREFIX);
  const isSame = isEqual(withoutNics(vmi.spec), withoutNics(old.spec));
  return isService || isSame ? undefined : RESTRICTED_REFUSAL;
}
