// SPDX-License-Identifier: Apache-2.0
// What a rule of admission is; the order of the rules is the order of the causes.
import type { Cause } from "../kinds/meta.ts";
import type { Iface, Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";

/** `spec.domain.devices` of a VMI. */
type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

/** The part of a specification that the rules judge. */
export interface NetworkingSpec {
  readonly networks: readonly Network[];
  readonly ifaces: readonly Iface[];
  readonly devices: Devices;
  readonly machine: string;
  /** Path of the VMI specification: `spec`, or `spec.template.spec` in a VM. */
  readonly base: string;
}

/** Judges one matter; no cause means that nothing is wrong with it. */
export type Rule = (spec: NetworkingSpec) => readonly Cause[];

/** Path of an iface, by its place in the list, for causes. */
export function ifacePath(base: string, index: number): string {
  return `${base}.domain.devices.interfaces[${String(index)}]`;
}

/** Path of a network, by its place in the list, for causes. */
export function networkPath(base: string, index: number): string {
  return `${base}.networks[${String(index)}]`;
}

type Judge<T> = (entry: T, path: string, spec: NetworkingSpec) => readonly Cause[];

function ruleFor<T>(
  entriesOf: (spec: NetworkingSpec) => readonly T[],
  pathOf: (base: string, index: number) => string,
): (judge: Judge<T>) => Rule {
  return (judge) => (spec) =>
    entriesOf(spec).flatMap((entry, index) => judge(entry, pathOf(spec.base, index), spec));
}

/** Makes a rule from a judgement of one iface. */
export const forEachIface = ruleFor<Iface>(({ ifaces }) => ifaces, ifacePath);

/** Makes a rule from a judgement of one network. */
export const forEachNetwork = ruleFor<Network>(({ networks }) => networks, networkPath);

/** The network that an iface joins: the one of its name. */
export function findNetworkOf(spec: NetworkingSpec, iface: Iface): Network | undefined {
  return spec.networks.find((network) => network.name === iface.name);
}

/** One cause, or none when `wrong` is false. */
export function causeIf(wrong: boolean, cause: Cause): readonly Cause[] {
  return wrong ? [cause] : [];
}
