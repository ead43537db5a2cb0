// SPDX-License-Identifier: Apache-2.0
// Which MACs a VM's next guest finds again on the pod's network, where no manifest and no annotation asks for one.
import {
  isAbsent,
  isDefaultNetwork,
  isNicMac,
  normalizeMac,
  type BindingRegistry,
  type Iface,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
  type VmStatus,
} from "@patchbay/api";
import { bindingOf } from "../bindings/resolve-binding.ts";
import { BINDINGS } from "../bindings/binding.ts";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";

type KeptMacs = NonNullable<VmStatus["macAddresses"]>;

/** Whether the iface is on the pod's network, and its guest can have the MAC of an earlier one. */
function canKeepMac(iface: Iface, spec: VmiSpec, bindings: BindingRegistry): boolean {
  const network = findByName(networksOf(spec), iface.name);
  if (network === undefined || !isDefaultNetwork(network) || isAbsent(iface)) return false;
  const { kind } = bindingOf(iface, network, bindings);
  return kind !== "refused" && BINDINGS[kind].takesAnyMac;
}

/** The MACs that are kept: what the guest has goes before what was known; an iface that is no longer declared is forgotten. */
export function keptMacsOf(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  bindings: BindingRegistry,
): KeptMacs {
  const { spec } = vm.spec.template;
  return ifacesOf(spec)
    .filter((iface) => canKeepMac(iface, spec, bindings))
    .flatMap(({ name }) => {
      const reported = findByName(vmi?.status?.interfaces, name)?.mac ?? "";
      const known = findByName(vm.status?.macAddresses, name)?.macAddress;
      // A launcher may say anything, and no VMI is made with a MAC that is none.
      const mac = isNicMac(reported) ? normalizeMac(reported) : known;
      return mac === undefined ? [] : [{ name, macAddress: mac }];
    });
}

/** The ifaces of a VM's template, each with the MAC that was kept for it, where the template names none. */
export function withKeptMacs(
  vm: VirtualMachine,
  ifaces: readonly Iface[],
  bindings: BindingRegistry,
): readonly Iface[] {
  const kept = keptMacsOf(vm, undefined, bindings);
  return ifaces.map((iface) => {
    const macAddress = findByName(kept, iface.name)?.macAddress;
    const isNamed = (iface.macAddress ?? "") !== "";
    return isNamed || macAddress === undefined ? iface : { ...iface, macAddress };
  });
}
