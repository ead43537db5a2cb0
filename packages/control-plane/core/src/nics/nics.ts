// SPDX-License-Identifier: Apache-2.0
import type {
  Iface,
  Network,
  VirtualMachine,
  VirtualMachineInstance,
  VmiSpec,
} from "@patchbay/api";
export { findByName } from "@patchbay/api/values";

export function ifacesOf(spec: VmiSpec): readonly Iface[] {
  return spec.domain.devices?.interfaces ?? [];
}

export function networksOf(spec: VmiSpec): readonly Network[] {
  return spec.networks ?? [];
}

export interface NicsLocation {
  /** Unset if neither a VM nor a VMI exists. */
  readonly spec: VmiSpec | undefined;
  readonly base: string;
}

/** Returns the VM's template spec and its JSON pointer. If the VM does not exist, returns the VMI's spec. */
export function locateNics(machine: {
  readonly vm?: VirtualMachine | undefined;
  readonly vmi?: VirtualMachineInstance | undefined;
}): NicsLocation {
  const { vm, vmi } = machine;
  return vm === undefined
    ? { spec: vmi?.spec, base: "/spec" }
    : { spec: vm.spec.template.spec, base: "/spec/template/spec" };
}

export interface Nics {
  readonly networks: readonly Network[];
  readonly ifaces: readonly Iface[];
}

/** Returns all networks and interfaces, including interfaces with state `absent`. */
export function nicsOf(spec: VmiSpec): Nics {
  return { networks: networksOf(spec), ifaces: ifacesOf(spec) };
}

/** Returns NAMESPACE/NAME of the network's definition; undefined for the pod network. Source: KubeVirt network/multus/nad.go. */
export function networkNameOf(network: Network, namespace: string): string | undefined {
  const name = network.multus?.networkName;
  return name === undefined ? undefined : qualifyName(name, namespace);
}

export function qualifyName(name: string, namespace: string): string {
  return name.includes("/") ? name : `${namespace}/${name}`;
}

export function withNics(
  spec: VmiSpec,
  networks: readonly Network[],
  ifaces: readonly Iface[],
): VmiSpec {
  return {
    ...spec,
    networks: [...networks],
    domain: { ...spec.domain, devices: { ...spec.domain.devices, interfaces: [...ifaces] } },
  };
}
