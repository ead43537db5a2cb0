// SPDX-License-Identifier: Apache-2.0
// What a rule of admission is; the order of the rules is the order of the causes.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { Disk, Volume } from "../kinds/guest/disks.ts";
import type { Iface, Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";

/** `spec.domain.devices` of a VMI. */
type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

/** A specification, with the parts at hand that many rules judge. */
export interface JudgedSpec {
  /** In the newest words. */
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

/** Judges one matter; no cause means that nothing is wrong with it. */
export type Rule = (spec: JudgedSpec) => readonly Cause[];

/** Path of an iface, by its place in the list, for causes. */
export function ifacePath(base: string, index: number): string {
  return `${base}.domain.devices.interfaces[${String(index)}]`;
}

/** Path of a network, by its place in the list, for causes. */
export function networkPath(base: string, index: number): string {
  return `${base}.networks[${String(index)}]`;
}

/** Path of a disk, by its place in the list, for causes. */
export function diskPath(base: string, index: number): string {
  return `${base}.domain.devices.disks[${String(index)}]`;
}

/** Path of a volume, by its place in the list, for causes. */
export function volumePath(base: string, index: number): string {
  return `${base}.volumes[${String(index)}]`;
}

type Judge<T> = (entry: T, path: string, spec: JudgedSpec) => readonly Cause[];

function ruleFor<T>(
  entriesOf: (spec: JudgedSpec) => readonly T[],
  pathOf: (base: string, index: number) => string,
): (judge: Judge<T>) => Rule {
  return (judge) => (spec) =>
    entriesOf(spec).flatMap((entry, index) => judge(entry, pathOf(spec.base, index), spec));
}

/** Makes a rule from a judgement of one iface. */
export const forEachIface = ruleFor<Iface>(({ ifaces }) => ifaces, ifacePath);

/** Makes a rule from a judgement of one network. */
export const forEachNetwork = ruleFor<Network>(({ networks }) => networks, networkPath);

/** Makes a rule from a judgement of one disk. */
export const forEachDisk = ruleFor<Disk>(({ disks }) => disks, diskPath);

/** Makes a rule from a judgement of one volume. */
export const forEachVolume = ruleFor<Volume>(({ volumes }) => volumes, volumePath);

/** The network that an iface joins: the one of its name. */
export function findNetworkOf(spec: JudgedSpec, iface: Iface): Network | undefined {
  return spec.networks.find((network) => network.name === iface.name);
}

/** One cause, or none when `wrong` is false. */
export function causeIf(wrong: boolean, cause: Cause): readonly Cause[] {
  return wrong ? [cause] : [];
}
