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

/** Checks whether a value is missing or Go's zero value, which KubeVirt treats as unset. */
export function isUnset(value: unknown): boolean {
  return value === undefined || value === "" || value === false || value === 0;
}

export type Template = VmSpec["template"];

interface ControlledField {
  readonly field: string;
  readonly clashes: (spec: VmiSpec, instancetype: InstancetypeSpec) => boolean;
}

type Domain = VmiSpec["domain"];

function controlled(field: string, clashes: ControlledField["clashes"]): ControlledField {
  return { field, clashes };
}

function controlledIfSet(
  field: string,
  readInstancetype: (instancetype: InstancetypeSpec) => unknown,
  readSpec: (spec: VmiSpec) => unknown,
): ControlledField {
  return controlled(
    field,
    (spec, type) => !isUnset(readInstancetype(type)) && !isUnset(readSpec(spec)),
  );
}

function alwaysControlled(field: string, readDomain: (domain: Domain) => unknown): ControlledField {
  return controlled(field, ({ domain }) => !isUnset(readDomain(domain)));
}

function isFilled(devices: unknown): boolean {
  return Array.isArray(devices) && devices.length > 0;
}

const CONTROLLED_FIELDS: readonly ControlledField[] = [
  controlledIfSet(
    "nodeSelector",
    (instancetype) => instancetype.nodeSelector,
    (spec) => spec.nodeSelector,
  ),
  controlledIfSet(
    "schedulerName",
    (instancetype) => instancetype.schedulerName,
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
    (instancetype) => instancetype.cpu.model,
    ({ domain }) => domain.cpu?.model,
  ),
  controlled(
    "domain.cpu.dedicatedCpuPlacement",
    ({ domain }, instancetype) =>
      instancetype.cpu.dedicatedCPUPlacement !== undefined &&
      !isUnset(domain.cpu?.dedicatedCpuPlacement),
  ),
  controlled(
    "domain.cpu.isolateEmulatorThread",
    ({ domain }, instancetype) =>
      instancetype.cpu.isolateEmulatorThread !== undefined &&
      !isUnset(domain.cpu?.isolateEmulatorThread),
  ),
  controlledIfSet(
    "domain.cpu.numa",
    (instancetype) => instancetype.cpu.numa,
    ({ domain }) => domain.cpu?.numa,
  ),
  controlledIfSet(
    "domain.cpu.realtime",
    (instancetype) => instancetype.cpu.realtime,
    ({ domain }) => domain.cpu?.realtime,
  ),
  alwaysControlled("domain.memory.guest", ({ memory }) => memory?.guest),
  controlledIfSet(
    "domain.memory.hugepages",
    (instancetype) => instancetype.memory.hugepages,
    ({ domain }) => domain.memory?.hugepages,
  ),
  controlledIfSet(
    "domain.memory.maxGuest",
    (instancetype) => instancetype.memory.maxGuest,
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
    (instancetype) => instancetype.ioThreadsPolicy,
    ({ domain }) => domain.ioThreadsPolicy,
  ),
  controlledIfSet(
    "domain.ioThreads",
    (instancetype) => instancetype.ioThreads,
    ({ domain }) => domain.ioThreads,
  ),
  controlledIfSet(
    "domain.launchSecurity",
    (instancetype) => instancetype.launchSecurity,
    ({ domain }) => domain.launchSecurity,
  ),
  controlled(
    "domain.devices.gpus",
    ({ domain }, instancetype) => isFilled(instancetype.gpus) && isFilled(domain.devices?.gpus),
  ),
  controlled(
    "domain.devices.hostDevices",
    ({ domain }, instancetype) =>
      isFilled(instancetype.hostDevices) && isFilled(domain.devices?.hostDevices),
  ),
];

function findConflictingAnnotations(
  { metadata }: Template,
  instancetype: InstancetypeSpec,
): readonly string[] {
  const templateAnnotations = metadata?.annotations ?? {};
  return Object.entries(instancetype.annotations ?? {})
    .filter(
      ([key, value]) =>
        templateAnnotations[key] !== undefined && templateAnnotations[key] !== value,
    )
    .map(([key]) => `annotations.${key}`);
}

/** Returns one cause per conflicting field, with KubeVirt's message. `base` is the path of the template's spec. */
export function listConflictCauses(
  template: Template,
  instancetype: InstancetypeSpec,
  base: string,
): readonly Cause[] {
  const fields = CONTROLLED_FIELDS.filter(({ clashes }) => clashes(template.spec, instancetype));
  const paths = [
    ...fields.map(({ field }) => `${base}.${field}`),
    ...findConflictingAnnotations(template, instancetype),
  ];
  return paths.map((field) => ({
    reason: "FieldValueInvalid",
    field,
    message: `VM field(s) ${field} conflicts with selected instance type`,
  }));
}

const BYTES_PER_MIB = 2 ** 20;

/** Returns the pod's memory request, or an empty object if overcommit is off. Rounds to single precision, as KubeVirt does. */
function computeRequestedMemory({ guest, overcommitPercent = 0 }: InstancetypeSpec["memory"]) {
  if (overcommitPercent === 0) return {};
  const part = Math.fround(1 - Math.fround(Math.fround(overcommitPercent) / 100));
  const bytes = Math.trunc(Math.fround(Math.fround(parseQuantity(guest) ?? 0) * part));
  const memory = bytes % BYTES_PER_MIB === 0 ? `${String(bytes / BYTES_PER_MIB)}Mi` : String(bytes);
  return { memory };
}

function sizeResources(
  { resources }: Domain,
  instancetype: InstancetypeSpec,
): Pick<Domain, "resources"> {
  const requestedMemory = computeRequestedMemory(instancetype.memory);
  if (requestedMemory.memory === undefined) return resources === undefined ? {} : { resources };
  return { resources: { ...resources, requests: { ...resources?.requests, ...requestedMemory } } };
}

function sizeCpu(
  { cpu }: Domain,
  { cpu: instancetypeCpu }: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
): NonNullable<Domain["cpu"]> {
  const { model, maxSockets, dedicatedCPUPlacement, isolateEmulatorThread, numa, realtime } =
    instancetypeCpu;
  return {
    ...cpu,
    ...omitUnset({ model, maxSockets, isolateEmulatorThread, numa, realtime }),
    ...omitUnset({ dedicatedCpuPlacement: dedicatedCPUPlacement }),
    ...chooseTopology(instancetypeCpu.guest, preference),
  };
}

function sizeDevices({ devices }: Domain, instancetype: InstancetypeSpec): Pick<Domain, "devices"> {
  const deviceLists = {
    ...(isFilled(instancetype.gpus) ? { gpus: instancetype.gpus } : {}),
    ...(isFilled(instancetype.hostDevices) ? { hostDevices: instancetype.hostDevices } : {}),
  };
  const isUnchanged = Object.keys(deviceLists).length === 0;
  if (isUnchanged) return devices === undefined ? {} : { devices };
  return { devices: { ...devices, ...deviceLists } };
}

function sizeDomain(
  domain: Domain,
  instancetype: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
): Domain {
  const { guest, hugepages, maxGuest } = instancetype.memory;
  const { ioThreadsPolicy, ioThreads, launchSecurity } = instancetype;
  return {
    ...domain,
    cpu: sizeCpu(domain, instancetype, preference),
    memory: { ...domain.memory, guest, ...omitUnset({ hugepages, maxGuest }) },
    ...sizeResources(domain, instancetype),
    ...sizeDevices(domain, instancetype),
    ...omitUnset({ ioThreadsPolicy, ioThreads, launchSecurity }),
  };
}

/** Applies the instancetype to a template. The template must have no conflicts; see {@link listConflictCauses}. */
export function withInstancetype(
  template: Template,
  instancetype: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
): Template {
  const { nodeSelector, schedulerName } = instancetype;
  const annotations = { ...instancetype.annotations, ...template.metadata?.annotations };
  const metadata =
    instancetype.annotations === undefined
      ? template.metadata
      : { ...template.metadata, annotations };
  return {
    ...template,
    ...omitUnset({ metadata }),
    spec: {
      ...template.spec,
      ...omitUnset({ nodeSelector, schedulerName }),
      domain: sizeDomain(template.spec.domain, instancetype, preference),
    },
  };
}
