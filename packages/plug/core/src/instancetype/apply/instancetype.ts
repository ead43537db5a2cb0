// SPDX-License-Identifier: Apache-2.0
// What an instancetype makes of a template, and with which of its fields it does not go together. Source: KubeVirt
// pkg/instancetype/apply.
import {
  parseQuantity,
  type Cause,
  type InstancetypeSpec,
  type PreferenceSpec,
  type VmiSpec,
  type VmSpec,
} from "@patchbay/api";
import { isUnsaid, said } from "./said.ts";
import { topologyOf } from "./topology.ts";

/** A VMI as the template of a VM declares it. */
export type Template = VmSpec["template"];

/** A field of the template that the instancetype decides: whether it does, and whether the template says it too. */
interface Decided {
  readonly field: string;
  readonly clashes: (spec: VmiSpec, its: InstancetypeSpec) => boolean;
}

type Domain = VmiSpec["domain"];

function decided(field: string, clashes: Decided["clashes"]): Decided {
  return { field, clashes };
}

/** One that the instancetype decides only where it says something. */
function ifBoth(
  field: string,
  its: (its: InstancetypeSpec) => unknown,
  own: (spec: VmiSpec) => unknown,
): Decided {
  return decided(field, (spec, type) => !isUnsaid(its(type)) && !isUnsaid(own(spec)));
}

/** One that it always decides. */
function ifSaid(field: string, own: (domain: Domain) => unknown): Decided {
  return decided(field, ({ domain }) => !isUnsaid(own(domain)));
}

function isFilled(list: unknown): boolean {
  return Array.isArray(list) && list.length > 0;
}

/** In KubeVirt's order. */
const DECIDED: readonly Decided[] = [
  ifBoth(
    "nodeSelector",
    (its) => its.nodeSelector,
    (spec) => spec.nodeSelector,
  ),
  ifBoth(
    "schedulerName",
    (its) => its.schedulerName,
    (spec) => spec.schedulerName,
  ),
  decided(
    "domain.resources.requests.cpu",
    ({ domain }) => domain.resources?.requests?.["cpu"] !== undefined,
  ),
  decided(
    "domain.resources.limits.cpu",
    ({ domain }) => domain.resources?.limits?.["cpu"] !== undefined,
  ),
  ifSaid("domain.cpu.sockets", ({ cpu }) => cpu?.sockets),
  ifSaid("domain.cpu.cores", ({ cpu }) => cpu?.cores),
  ifSaid("domain.cpu.threads", ({ cpu }) => cpu?.threads),
  ifBoth(
    "domain.cpu.model",
    (its) => its.cpu.model,
    ({ domain }) => domain.cpu?.model,
  ),
  decided(
    "domain.cpu.dedicatedCpuPlacement",
    ({ domain }, its) =>
      its.cpu.dedicatedCPUPlacement !== undefined && !isUnsaid(domain.cpu?.dedicatedCpuPlacement),
  ),
  decided(
    "domain.cpu.isolateEmulatorThread",
    ({ domain }, its) =>
      its.cpu.isolateEmulatorThread !== undefined && !isUnsaid(domain.cpu?.isolateEmulatorThread),
  ),
  ifBoth(
    "domain.cpu.numa",
    (its) => its.cpu.numa,
    ({ domain }) => domain.cpu?.numa,
  ),
  ifBoth(
    "domain.cpu.realtime",
    (its) => its.cpu.realtime,
    ({ domain }) => domain.cpu?.realtime,
  ),
  ifSaid("domain.memory.guest", ({ memory }) => memory?.guest),
  ifBoth(
    "domain.memory.hugepages",
    (its) => its.memory.hugepages,
    ({ domain }) => domain.memory?.hugepages,
  ),
  ifBoth(
    "domain.memory.maxGuest",
    (its) => its.memory.maxGuest,
    ({ domain }) => domain.memory?.maxGuest,
  ),
  decided(
    "domain.resources.requests.memory",
    ({ domain }) => domain.resources?.requests?.["memory"] !== undefined,
  ),
  decided(
    "domain.resources.limits.memory",
    ({ domain }) => domain.resources?.limits?.["memory"] !== undefined,
  ),
  ifBoth(
    "domain.ioThreadsPolicy",
    (its) => its.ioThreadsPolicy,
    ({ domain }) => domain.ioThreadsPolicy,
  ),
  ifBoth(
    "domain.ioThreads",
    (its) => its.ioThreads,
    ({ domain }) => domain.ioThreads,
  ),
  ifBoth(
    "domain.launchSecurity",
    (its) => its.launchSecurity,
    ({ domain }) => domain.launchSecurity,
  ),
  decided(
    "domain.devices.gpus",
    ({ domain }, its) => isFilled(its.gpus) && isFilled(domain.devices?.gpus),
  ),
  decided(
    "domain.devices.hostDevices",
    ({ domain }, its) => isFilled(its.hostDevices) && isFilled(domain.devices?.hostDevices),
  ),
];

/** An annotation that both name has one value. */
function annotationFields({ metadata }: Template, its: InstancetypeSpec): readonly string[] {
  const own = metadata?.annotations ?? {};
  return Object.entries(its.annotations ?? {})
    .filter(([key, value]) => own[key] !== undefined && own[key] !== value)
    .map(([key]) => `annotations.${key}`);
}

/** Fields of a template at `base` that its instancetype decides. Source: KubeVirt, whose words these are. */
export function conflictCauses(
  template: Template,
  its: InstancetypeSpec,
  base: string,
): readonly Cause[] {
  const fields = DECIDED.filter(({ clashes }) => clashes(template.spec, its));
  const paths = [
    ...fields.map(({ field }) => `${base}.${field}`),
    ...annotationFields(template, its),
  ];
  return paths.map((field) => ({
    reason: "FieldValueInvalid",
    field,
    message: `VM field(s) ${field} conflicts with selected instance type`,
  }));
}

const BYTES_PER_MIB = 2 ** 20;

/** What is requested of the node, as KubeVirt rounds it: in single precision. */
function requestedMemory({ guest, overcommitPercent = 0 }: InstancetypeSpec["memory"]) {
  if (overcommitPercent === 0) return {};
  const part = Math.fround(1 - Math.fround(Math.fround(overcommitPercent) / 100));
  const bytes = Math.trunc(Math.fround(Math.fround(parseQuantity(guest) ?? 0) * part));
  const memory = bytes % BYTES_PER_MIB === 0 ? `${String(bytes / BYTES_PER_MIB)}Mi` : String(bytes);
  return { memory };
}

function resourcesOf({ resources }: Domain, its: InstancetypeSpec): Pick<Domain, "resources"> {
  const requested = requestedMemory(its.memory);
  if (requested.memory === undefined) return resources === undefined ? {} : { resources };
  return { resources: { ...resources, requests: { ...resources?.requests, ...requested } } };
}

function cpuOf(
  { cpu }: Domain,
  { cpu: its }: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
): NonNullable<Domain["cpu"]> {
  const { model, maxSockets, dedicatedCPUPlacement, isolateEmulatorThread, numa, realtime } = its;
  return {
    ...cpu,
    ...said({ model, maxSockets, isolateEmulatorThread, numa, realtime }),
    ...said({ dedicatedCpuPlacement: dedicatedCPUPlacement }),
    ...topologyOf(its.guest, preference),
  };
}

function devicesOf({ devices }: Domain, its: InstancetypeSpec): Pick<Domain, "devices"> {
  const lists = {
    ...(isFilled(its.gpus) ? { gpus: its.gpus } : {}),
    ...(isFilled(its.hostDevices) ? { hostDevices: its.hostDevices } : {}),
  };
  const isUnchanged = Object.keys(lists).length === 0;
  if (isUnchanged) return devices === undefined ? {} : { devices };
  return { devices: { ...devices, ...lists } };
}

function domainOf(
  domain: Domain,
  its: InstancetypeSpec,
  preference: PreferenceSpec | undefined,
): Domain {
  const { guest, hugepages, maxGuest } = its.memory;
  const { ioThreadsPolicy, ioThreads, launchSecurity } = its;
  return {
    ...domain,
    cpu: cpuOf(domain, its, preference),
    memory: { ...domain.memory, guest, ...said({ hugepages, maxGuest }) },
    ...resourcesOf(domain, its),
    ...devicesOf(domain, its),
    ...said({ ioThreadsPolicy, ioThreads, launchSecurity }),
  };
}

/** The template with what the instancetype decides; nothing of that may be said in it: `conflictCauses`. */
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
    ...said({ metadata }),
    spec: {
      ...template.spec,
      ...said({ nodeSelector, schedulerName }),
      domain: domainOf(template.spec.domain, its, preference),
    },
  };
}
