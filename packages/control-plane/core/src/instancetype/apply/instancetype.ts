// SPDX-License-Identifier: Apache-2.0
// Applies an instancetype to a template, and reports conflicting fields. Source: KubeVirt pkg/instancetype/apply.
import type { InstancetypeSpec, PreferenceSpec, VmiSpec, VmSpec } from "@patchbay/api";
import type { Cause } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { chooseTopology } from "./topology.ts";

export function omitUnset<T extends object>(
  members: T,
): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { readonly [K in keyof T]?: Exclude<T[K], undefined> };
}

/** Whether a value is Go's zero value, which KubeVirt treats as unset. */
export function isUnset(value: unknown): boolean {
  return value === undefined || value === "" || value === false || value === 0;
}

export type Template = VmSpec["template"];

interface ControlledField {
  readonly field: string;
  readonly clashes: (spec: VmiSpec, its: InstancetypeSpec) => boolean;
}

type Domain = VmiSpec["domain"];

function controlled(field: string, clashes: ControlledField["clashes"]): ControlledField {
  return { field, clashes };
}

function controlledIfSet(
  field: string,
  its: (its: InstancetypeSpec) => unknown,
  own: (spec: VmiSpec) => unknown,
): ControlledField {
  return controlled(field, (spec, type) => !isUnset(its(type)) && !isUnset(own(spec)));
}

function alwaysControlled(field: string, own: (domain: Domain) => unknown): ControlledField {
  return controlled(field, ({ domain }) => !isUnset(own(domain)));
}

function isFilled(list: unknown): boolean {
  return Array.isArray(list) && list.length > 0;
}

const CONTROLLED_FIELDS: readonly ControlledField[] = [
  controlledIfSet(
    "nodeSelector",
    (its) => its.nodeSelector,
    (spec) => spec.nodeSelector,
  ),
  controlledIfSet(
    "schedulerName",
    (its) => its.schedulerName,
    (spec) => spec.schedulerName,
  ),
  controlled(
    "domain.resources.requests.cpu",
    ({ domain }) => domain.resources?.requests?.["cpu"] !== undefined,
  ),
  controlled(
    "domain.resources.limits.cpu",
    ({ domain }) => domain.resources?.limits?.["cpu"] !== undefined,
  ),
  alwaysControlled("domain.cpu.sockets", ({ cpu }) => cpu?.sockets),
  alwaysControlled("domain.cpu.cores", ({ cpu }) => cpu?.cores),
  alwaysControlled("domain.cpu.threads", ({ cpu }) => cpu?.threads),
  controlledIfSet(
    "domain.cpu.model",
    (its) => its.cpu.model,
    ({ domain }) => domain.cpu?.model,
  ),
  controlled(
    "domain.cpu.dedicatedCpuPlacement",
    ({ domain }, its) =>
      its.cpu.dedicatedCPUPlacement !== undefined && !isUnset(domain.cpu?.dedicatedCpuPlacement),
  ),
  controlled(
    "domain.cpu.isolateEmulatorThread",
    ({ domain }, its) =>
      its.cpu.isolateEmulatorThread !== undefined && !isUnset(domain.cpu?.isolateEmulatorThread),
  ),
  controlledIfSet(
    "domain.cpu.numa",
    (its) => its.cpu.numa,
    ({ domain }) => domain.cpu?.numa,
  ),
  controlledIfSet(
    "domain.cpu.realtime",
    (its) => its.cpu.realtime,
    ({ domain }) => domain.cpu?.realtime,
  ),
  alwaysControlled("domain.memory.guest", ({ memory }) => memory?.guest),
  controlledIfSet(
    "domain.memory.hugepages",
    (its) => its.memory.hugepages,
    ({ domain }) => domain.memory?.hugepages,
  ),
  controlledIfSet(
    "domain.memory.maxGuest",
    (its) => its.memory.maxGuest,
    ({ domain }) => domain.memory?.maxGuest,
  ),
  controlled(
    "domain.resources.requests.memory",
    ({ domain }) => domain.resources?.requests?.["memory"] !== undefined,
  ),
  controlled(
    "domain.resources.limits.memory",
    ({ domain }) => domain.resources?.limits?.["memory"] !== undefined,
  ),
  controlledIfSet(
    "domain.ioThreadsPolicy",
    (its) => its.ioThreadsPolicy,
    ({ domain }) => domain.ioThreadsPolicy,
  ),
  controlledIfSet(
    "domain.ioThreads",
    (its) => its.ioThreads,
    ({ domain }) => domain.ioThreads,
  ),
  controlledIfSet(
    "domain.launchSecurity",
    (its) => its.launchSecurity,
    ({ domain }) => domain.launchSecurity,
  ),
  controlled(
    "domain.devices.gpus",
    ({ domain }, its) => isFilled(its.gpus) && isFilled(domain.devices?.gpus),
  ),
  controlled(
    "domain.devices.hostDevices",
    ({ domain }, its) => isFilled(its.hostDevices) && isFilled(domain.devices?.hostDevices),
  ),
];

function conflictingAnnotations({ metadata }: Template, its: InstancetypeSpec): readonly string[] {
  const own = metadata?.annotations ?? {};
  return Object.entries(its.annotations ?? {})
    .filter(([key, value]) => own[key] !== undefined && own[key] !== value)
    .map(([key]) => `annotations.${key}`);
}

/** Returns the conflicting fields, relative to `base`. The messages are KubeVirt's. */
export function conflictCauses(
  template: Template,
  its: InstancetypeSpec,
  base: string,
): readonly Cause[] {
  const fields = CONTROLLED_FIELDS.filter(({ clashes }) => clashes(template.spec, its));
  const paths = [
    ...fields.map(({ field }) => `${base}.${field}`),
    ...conflictingAnnotations(template, its),
  ];
  return paths.map((field) => ({
    reason: "FieldValueInvalid",
    field,
    message: `VM field(s) ${field} conflicts with selected instance type`,
  }));
}

const BYTES_PER_MIB = 2 ** 20;

/** Memory requested from the node. Rounds in single precision as KubeVirt does. */
function requestedMemory({ guest, overcommitPercent = 0 }: InstancetypeSpec["memory"]) {
  if (overcommitPercent === 0) return {};
  const part = Math.fround(1 - Math.fround(Math.fround(overcommitPercent) / 100));
  const bytes = Math.trunc(Math.fround(Math.fround(parseQuantity(guest) ?? 0) * part));
  const memory = bytes % BYTES_PER_MIB === 0 ? `${String(bytes / BYTES_PER_MIB)}Mi` : String(bytes);
  return { memory };
}

function sizedResources({ resources }: Domain, its: InstancetypeSpec): Pick<Domain, "resources"> {
  const requested = requestedMemory(its.memory);
  if (requested.memory === undefined) return resources === undefined ? {} : { resources };
  return { resources: { ...resources, requests: { ...resources?.requests, ...requested } } };
}

function sizedCpu(
  { cpu }: Domain,
  { cpu: its }: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
): NonNullable<Domain["cpu"]> {
  const { model, maxSockets, dedicatedCPUPlacement, isolateEmulatorThread, numa, realtime } = its;
  return {
    ...cpu,
    ...omitUnset({ model, maxSockets, isolateEmulatorThread, numa, realtime }),
    ...omitUnset({ dedicatedCpuPlacement: dedicatedCPUPlacement }),
    ...chooseTopology(its.guest, preference),
  };
}

function sizedDevices({ devices }: Domain, its: InstancetypeSpec): Pick<Domain, "devices"> {
  const lists = {
    ...(isFilled(its.gpus) ? { gpus: its.gpus } : {}),
    ...(isFilled(its.hostDevices) ? { hostDevices: its.hostDevices } : {}),
  };
  const isUnchanged = Object.keys(lists).length === 0;
  if (isUnchanged) return devices === undefined ? {} : { devices };
  return { devices: { ...devices, ...lists } };
}

function sizedDomain(
  domain: Domain,
  its: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
): Domain {
  const { guest, hugepages, maxGuest } = its.memory;
  const { ioThreadsPolicy, ioThreads, launchSecurity } = its;
  return {
    ...domain,
    cpu: sizedCpu(domain, its, preference),
    memory: { ...domain.memory, guest, ...omitUnset({ hugepages, maxGuest }) },
    ...sizedResources(domain, its),
    ...sizedDevices(domain, its),
    ...omitUnset({ ioThreadsPolicy, ioThreads, launchSecurity }),
  };
}

/** Applies the instancetype. Expects a template without conflicts; see {@link conflictCauses}. */
export function withInstancetype(
  template: Template,
  its: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
): Template {
  const { nodeSelector, schedulerName } = its;
  const annotations = { ...its.annotations, ...template.metadata?.annotations };
  const metadata =
    its.annotations === undefined ? template.metadata : { ...template.metadata, annotations };
  return {
    ...template,
    ...omitUnset({ metadata }),
    spec: {
      ...template.spec,
      ...omitUnset({ nodeSelector, schedulerName }),
      domain: sizedDomain(template.spec.domain, its, preference),
    },
  };
}
