// SPDX-License-Identifier: Apache-2.0
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { Disk, Volume } from "../kinds/guest/disks.ts";
import type { Iface, Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

export interface ValidatedSpec {
  /** Specification in which all aliases are resolved. */
  readonly spec: VmiSpec;
  readonly disks: readonly Disk[];
  readonly volumes: readonly Volume[];
  readonly networks: readonly Network[];
  readonly ifaces: readonly Iface[];
  readonly devices: Devices;
  readonly machine: string;
  /** Path of the VMI specification: `spec`, or `spec.template.spec` in a VM. */
  readonly base: string;
}

/** Rule of admission. The order of rules is the order of causes. */
export type Rule = (spec: ValidatedSpec) => readonly Cause[];

export function ifacePath(base: string, index: number): string {
  return `${base}.domain.devices.interfaces[${String(index)}]`;
}

export function networkPath(base: string, index: number): string {
  return `${base}.networks[${String(index)}]`;
}

export function diskPath(base: string, index: number): string {
  return `${base}.domain.devices.disks[${String(index)}]`;
}

export function volumePath(base: string, index: number): string {
  return `${base}.volumes[${String(index)}]`;
}

type Judge<T> = (entry: T, path: string, spec: ValidatedSpec) => readonly Cause[];

function ruleFor<T>(
  entriesOf: (spec: ValidatedSpec) => readonly T[],
  pathOf: (base: string, index: number) => string,
): (judge: Judge<T>) => Rule {
  return (judge) => (spec) =>
    entriesOf(spec).flatMap((entry, index) => judge(entry, pathOf(spec.base, index), spec));
}

export const forEachIface = ruleFor<Iface>(({ ifaces }) => ifaces, ifacePath);

export const forEachNetwork = ruleFor<Network>(({ networks }) => networks, networkPath);

export const forEachDisk = ruleFor<Disk>(({ disks }) => disks, diskPath);

export const forEachVolume = ruleFor<Volume>(({ volumes }) => volumes, volumePath);

export function findIfaceNetwork(spec: ValidatedSpec, iface: Iface): Network | undefined {
  return spec.networks.find((network) => network.name === iface.name);
}

export function causeIf(isWrong: boolean, cause: Cause): readonly Cause[] {
  return isWrong ? [cause] : [];
}
