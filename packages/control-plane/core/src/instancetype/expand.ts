// SPDX-License-Identifier: Apache-2.0
// Expands a VM with its instancetype and preference, and checks the preference's requirements. Source: KubeVirt
// pkg/instancetype/expand, pkg/instancetype/preference/requirements.
import {
  names,
  type Matcher,
  type PreferenceSpec,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import type { Cause } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { conflictCauses, withInstancetype, type Template } from "./apply/instancetype.ts";
import { withPreference } from "./apply/preference.ts";
import { spreadCauses, findPreferredTopology, findSpread } from "./apply/topology.ts";
import { findMatcher, findPartType, PARTS, type Part, type Parts } from "./parts.ts";

const DEFAULT_ARCHITECTURE = "amd64";
const DOMAIN_PATH = "spec.template.spec.domain";

type Requirements = NonNullable<PreferenceSpec["requirements"]>;
interface UnmetRequirement {
  readonly fields: readonly string[];
  readonly message: string;
}
type TopologyCount = "sockets" | "cores" | "threads";

const SPREAD_COUNTS = {
  SocketsCores: ["sockets", "cores"],
  CoresThreads: ["cores", "threads"],
  SocketsCoresThreads: ["sockets", "cores", "threads"],
} as const satisfies Readonly<Record<string, readonly TopologyCount[]>>;

/** Returns the topology counts whose product is the number of vCPUs, and their name in messages. */
function findCounts(preference: PreferenceSpec): {
  readonly counts: readonly TopologyCount[];
  readonly label: string;
} {
  const preferred = findPreferredTopology(preference);
  if (preferred === "any")
    return { counts: ["cores", "sockets", "threads"], label: "cores, sockets and threads" };
  if (preferred !== "spread") return { counts: [preferred], label: preferred };
  const { across } = findSpread(preference);
  return { counts: SPREAD_COUNTS[across], label: across };
}

function checkTemplateCpus(
  minVcpus: number,
  { domain }: VmiSpec,
  preference: PreferenceSpec,
): UnmetRequirement | undefined {
  const { cpu } = domain;
  if (cpu === undefined) {
    const message = `no CPU resources provided by VirtualMachine, preference requires ${String(minVcpus)} vCPU`;
    return { fields: [`${DOMAIN_PATH}.cpu`], message };
  }
  const { counts, label } = findCounts(preference);
  const vcpus = counts.reduce((product, count) => product * (cpu[count] ?? 0), 1);
  if (vcpus >= minVcpus) return undefined;
  const message = `insufficient CPU resources of ${String(vcpus)} vCPU provided by VirtualMachine, preference requires ${String(minVcpus)} vCPU provided as ${label}`;
  return { fields: counts.map((count) => `${DOMAIN_PATH}.cpu.${count}`), message };
}

function checkCpus(
  { cpu }: Requirements,
  { instancetype, preference = {} }: Parts,
  spec: VmiSpec,
): UnmetRequirement | undefined {
  if (cpu === undefined) return undefined;
  if (instancetype === undefined) return checkTemplateCpus(cpu.guest, spec, preference);
  const { guest } = instancetype.cpu;
  if (guest >= cpu.guest) return undefined;
  const message = `insufficient CPU resources of ${String(guest)} vCPU provided by instance type, preference requires ${String(cpu.guest)} vCPU`;
  return { fields: ["spec.instancetype"], message };
}

function checkMemory(
  { memory }: Requirements,
  { instancetype }: Parts,
  { domain }: VmiSpec,
): UnmetRequirement | undefined {
  const memoryProvided = instancetype?.memory.guest ?? domain.memory?.guest;
  if (memory === undefined || memoryProvided === undefined) return undefined;
  if ((parseQuantity(memoryProvided) ?? 0) >= (parseQuantity(memory.guest) ?? 0)) return undefined;
  const [fields, by] =
    instancetype === undefined
      ? [[`${DOMAIN_PATH}.memory`], "VirtualMachine"]
      : [["spec.instancetype"], "instance type"];
  const message = `insufficient Memory resources of ${String(memoryProvided)} provided by ${by}, preference requires ${String(memory.guest)}`;
  return { fields, message };
}

function checkArchitecture(
  { architecture }: Requirements,
  spec: VmiSpec,
): UnmetRequirement | undefined {
  if (architecture === undefined) return undefined;
  const requested = spec.architecture;
  const architectureUsed =
    typeof requested === "string" && requested !== "" ? requested : DEFAULT_ARCHITECTURE;
  if (architectureUsed === architecture) return undefined;
  const message = `preference requires architecture ${architecture} but ${architectureUsed} is being requested`;
  return { fields: ["spec.template.spec.architecture"], message };
}

/** Returns unmet requirements of the preference, with KubeVirt's messages. Only the architecture in `spec` is expanded. */
export function requirementCauses(parts: Parts, spec: VmiSpec): readonly Cause[] {
  const requested = parts.preference?.requirements;
  if (requested === undefined) return [];
  const unmet = [
    checkCpus(requested, parts, spec),
    checkMemory(requested, parts, spec),
    checkArchitecture(requested, spec),
  ];
  return unmet.flatMap((requirement) =>
    (requirement?.fields ?? []).map((field) => ({
      reason: "FieldValueInvalid" as const,
      field,
      message: `failure checking preference requirements: ${requirement?.message ?? ""}`,
    })),
  );
}

const SPEC_PATH = "spec.template.spec";

export interface Expansion {
  /** The VM with the parts' values instead of matchers. Valid only if `causes` is empty. */
  readonly vm: VirtualMachine;
  readonly causes: readonly Cause[];
}

const ANNOTATIONS: Readonly<Record<Part, Readonly<{ own: string; cluster: string }>>> = {
  instancetype: {
    own: names.INSTANCETYPE_ANNOTATION,
    cluster: names.CLUSTER_INSTANCETYPE_ANNOTATION,
  },
  preference: { own: names.PREFERENCE_ANNOTATION, cluster: names.CLUSTER_PREFERENCE_ANNOTATION },
};

function partAnnotation(
  part: Part,
  { name = "", kind }: Matcher,
): Readonly<Record<string, string>> {
  const key = findPartType(part, kind)?.namespaced === true ? "own" : "cluster";
  return { [ANNOTATIONS[part][key]]: name };
}

function partAnnotations(vm: VirtualMachine): Readonly<Record<string, string>> {
  return Object.fromEntries(
    PARTS.flatMap((part) => {
      const matcher = findMatcher(vm, part);
      return matcher === undefined ? [] : Object.entries(partAnnotation(part, matcher));
    }),
  );
}

/** Annotates the template with the names of the VM's parts. Source: KubeVirt pkg/instancetype/annotations. */
export function withPartNames(expanded: VirtualMachine, vm: VirtualMachine): VirtualMachine {
  const { template } = expanded.spec;
  const annotations = { ...template.metadata?.annotations, ...partAnnotations(vm) };
  const metadata = { ...template.metadata, annotations };
  return { ...expanded, spec: { ...expanded.spec, template: { ...template, metadata } } };
}

type DataVolumes = VirtualMachine["spec"]["dataVolumeTemplates"];

function withClass(claim: unknown, storageClassName: string): unknown {
  return typeof claim === "object" && claim !== null ? { storageClassName, ...claim } : claim;
}

/** Sets the preferred storage class on DataVolumes without one. Source: KubeVirt setPreferenceStorageClassName. */
function withStorageClass(
  templates: DataVolumes,
  preference: PreferenceSpec | undefined,
): DataVolumes {
  const name = preference?.volumes?.preferredStorageClassName ?? "";
  if (name === "") return templates;
  return templates?.map((template) => {
    const { pvc, storage } = template.spec;
    const claims = {
      ...(pvc === undefined ? {} : { pvc: withClass(pvc, name) }),
      ...(storage === undefined ? {} : { storage: withClass(storage, name) }),
    };
    return { ...template, spec: { ...template.spec, ...claims } };
  });
}

function listCauses(template: Template, parts: Parts): readonly Cause[] {
  const { instancetype, preference } = parts;
  if (instancetype !== undefined) {
    const clashes = [
      ...spreadCauses(instancetype.cpu.guest, preference),
      ...conflictCauses(template, instancetype, SPEC_PATH),
    ];
    if (clashes.length > 0) return clashes;
  }
  const { preferredArchitecture: architecture } = preference ?? {};
  const spec = {
    ...template.spec,
    ...(template.spec.architecture === undefined && architecture !== undefined
      ? { architecture }
      : {}),
  };
  return requirementCauses(parts, spec);
}

function isPart(field: string): boolean {
  return PARTS.some((part) => part === field);
}

export function expandVm(vm: VirtualMachine, parts: Parts): Expansion {
  const { instancetype, preference } = parts;
  if (instancetype === undefined && preference === undefined) return { vm, causes: [] };
  const { template, dataVolumeTemplates } = vm.spec;
  const causes = listCauses(template, parts);
  const sized =
    instancetype === undefined ? template : withInstancetype(template, instancetype, preference);
  const preferred = preference === undefined ? sized : withPreference(sized, preference);
  const dataVolumes = withStorageClass(dataVolumeTemplates, preference);
  const others = Object.entries(vm.spec).filter(([field]) => !isPart(field));
  return {
    vm: {
      ...vm,
      spec: {
        // `others` lacks only the matchers, which are optional.
        ...(Object.fromEntries(others) as Partial<VirtualMachine["spec"]>),
        ...(dataVolumes === undefined ? {} : { dataVolumeTemplates: dataVolumes }),
        template: preferred,
      },
    },
    causes,
  };
}
