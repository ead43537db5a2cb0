// SPDX-License-Identifier: Apache-2.0
import { withCurrentFieldNames } from "../kinds/field-aliases.ts";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { Disk, Volume } from "../kinds/guest/disks.ts";
import type { Iface, Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { findByName } from "../values/memoize.ts";

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

export interface ValidatedSpec {
  /** VMI specification with resolved field aliases. */
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

export function toValidatedSpec(input: VmiSpec, base: string): ValidatedSpec {
  const spec = withCurrentFieldNames(input);
  const devices = spec.domain.devices ?? {};
  return {
    spec,
    disks: devices.disks ?? [],
    volumes: spec.volumes ?? [],
    networks: spec.networks ?? [],
    ifaces: devices.interfaces ?? [],
    devices,
    machine: spec.domain.machine?.type ?? "",
    base,
  };
}

/** Admission rule. Returns the causes for a rejection; empty if the specification is valid. */
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

type Check<T> = (entry: T, path: string, spec: ValidatedSpec) => readonly Cause[];

function buildRuleFactory<T>(
  listEntries: (spec: ValidatedSpec) => readonly T[],
  buildPath: (base: string, index: number) => string,
): (check: Check<T>) => Rule {
  return (check) => (spec) =>
    listEntries(spec).flatMap((entry, index) => check(entry, buildPath(spec.base, index), spec));
}

export const forEachIface = buildRuleFactory<Iface>(({ ifaces }) => ifaces, ifacePath);

export const forEachNetwork = buildRuleFactory<Network>(({ networks }) => networks, networkPath);

export const forEachDisk = buildRuleFactory<Disk>(({ disks }) => disks, diskPath);

export const forEachVolume = buildRuleFactory<Volume>(({ volumes }) => volumes, volumePath);

export function findIfaceNetwork(spec: ValidatedSpec, iface: Iface): Network | undefined {
  return findByName(spec.networks, iface.name);
}

export function causeIf(isInvalid: boolean, cause: Cause): readonly Cause[] {
  return isInvalid ? [cause] : [];
}
