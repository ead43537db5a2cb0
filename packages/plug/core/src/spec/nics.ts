// SPDX-License-Identifier: Apache-2.0
// Small queries over the networks and ifaces of a spec.
import type {
  Iface,
  Network,
  VirtualMachine,
  VirtualMachineInstance,
  VmiSpec,
} from "@patchbay/api";

/** The ifaces of a spec; a VM without any has none. */
export function ifacesOf(spec: VmiSpec): readonly Iface[] {
  return spec.domain.devices?.interfaces ?? [];
}

/** The networks of a spec; absent and empty are the same. */
export function networksOf(spec: VmiSpec): readonly Network[] {
  return spec.networks ?? [];
}

/** Where the NICs of a VM are declared. */
export interface NicsPlace {
  /** Unset if there is neither object. */
  readonly spec: VmiSpec | undefined;
  /** JSON pointer to `spec` in the object. */
  readonly base: string;
}

/** The spec that declares the NICs: the VM's template, or the spec of a VMI that has no VM. */
export function nicsPlaceOf(machine: {
  readonly vm?: VirtualMachine | undefined;
  readonly vmi?: VirtualMachineInstance | undefined;
}): NicsPlace {
  const { vm, vmi } = machine;
  return vm === undefined
    ? { spec: vmi?.spec, base: "/spec" }
    : { spec: vm.spec.template.spec, base: "/spec/template/spec" };
}

/** Networks and ifaces, in the order of the spec. */
export interface Nics {
  readonly networks: readonly Network[];
  readonly ifaces: readonly Iface[];
}

/** Both lists of a spec, as it says them: an absent iface is one of them. */
export function nicsOf(spec: VmiSpec): Nics {
  return { networks: networksOf(spec), ifaces: ifacesOf(spec) };
}

/** The entry of that name, or undefined. */
export function findByName<T extends { readonly name?: string }>(
  list: readonly T[] | undefined,
  name: string,
): T | undefined {
  return list?.find((entry) => entry.name === name);
}

/** NAMESPACE/NAME of a network's definition; undefined for the pod network. Source: KubeVirt network/multus/nad.go. */
export function networkNameOf(network: Network, namespace: string): string | undefined {
  const name = network.multus?.networkName;
  return name === undefined ? undefined : qualifiedName(name, namespace);
}

/** NAMESPACE/NAME of a definition that is named by NAME in that namespace, or by both. */
export function qualifiedName(name: string, namespace: string): string {
  return name.includes("/") ? name : `${namespace}/${name}`;
}

/** The spec with both lists replaced; all else is its own, the order is as given. */
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
