// SPDX-License-Identifier: Apache-2.0
// Expands a VM with its instancetype and preference. Source: KubeVirt pkg/instancetype/expand and
// preference/requirements.
import {
  names,
  type Matcher,
  type PreferenceSpec,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import type { Cause } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { listConflictCauses, withInstancetype, type Template } from "./apply/instancetype.ts";
import { withPreference } from "./apply/preference.ts";
import { findSpreadCauses, findPreferredTopology, findSpread } from "./apply/topology.ts";
import {
  findMatcher,
  findMatchedType,
  MATCHER_ROLES,
  type MatcherRole,
  type InstancetypeSpecs,
} from "./matchers.ts";

const DEFAULT_ARCHITECTURE = "amd64";
const DOMAIN_PATH = "spec.template.spec.domain";

type Requirements = NonNullable<PreferenceSpec["requirements"]>;
interface UnmetRequirement {
  readonly fields: readonly string[];
  readonly message: string;
}
type TopologyCount = "sockets" | "cores" | "threads";

const SPREAD_TOPOLOGY_COUNTS = {
  SocketsCores: ["sockets", "cores"],
  CoresThreads: ["cores", "threads"],
  SocketsCoresThreads: ["sockets", "cores", "threads"],
} as const satisfies Readonly<Record<string, readonly TopologyCount[]>>;

/** Returns the topology fields whose product is the number of vCPUs, and their label in messages. */
function findCounts(preference: PreferenceSpec): {
  readonly counts: readonly TopologyCount[];
  readonly label: string;
} {
  const preferredTopology = findPreferredTopology(preference);
  if (preferredTopology === "any")
    return { counts: ["cores", "sockets", "threads"], label: "cores, sockets and threads" };
  if (preferredTopology !== "spread")
    return { counts: [preferredTopology], label: preferredTopology };
  const { across } = findSpread(preference);
  return { counts: SPREAD_TOPOLOGY_COUNTS[across], label: across };
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
  { instancetype, preference = {} }: InstancetypeSpecs,
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
  { instancetype }: InstancetypeSpecs,
  { domain }: VmiSpec,
): UnmetRequirement | undefined {
  const memoryProvided = instancetype?.memory.guest ?? domain.memory?.guest;
  if (memory === undefined || memoryProvided === undefined) return undefined;
  if ((parseQuantity(memoryProvided) ?? 0) >= (parseQuantity(memory.guest) ?? 0)) return undefined;
  const [fields, field] =
    instancetype === undefined
      ? [[`${DOMAIN_PATH}.memory`], "VirtualMachine"]
      : [["spec.instancetype"], "instance type"];
  const message = `insufficient Memory resources of ${String(memoryProvided)} provided by ${field}, preference requires ${String(memory.guest)}`;
  return { fields, message };
}

function checkArchitecture(
  { architecture }: Requirements,
  spec: VmiSpec,
): UnmetRequirement | undefined {
  if (architecture === undefined) return undefined;
  const requestedArchitecture = spec.architecture;
  const architectureUsed =
    typeof requestedArchitecture === "string" && requestedArchitecture !== ""
      ? requestedArchitecture
      : DEFAULT_ARCHITECTURE;
  if (architectureUsed === architecture) return undefined;
  const message = `preference requires architecture ${architecture} but ${architectureUsed} is being requested`;
  return { fields: ["spec.template.spec.architecture"], message };
}

export function listRequirementCauses(specs: InstancetypeSpecs, spec: VmiSpec): readonly Cause[] {
  const requirements = specs.preference?.requirements;
  if (requirements === undefined) return [];
  const unmetRequirements = [
    checkCpus(requirements, specs, spec),
    checkMemory(requirements, specs, spec),
    checkArchitecture(requirements, spec),
  ];
  return unmetRequirements.flatMap((requirement) =>
    (requirement?.fields ?? []).map((field) => ({
      reason: "FieldValueInvalid" as const,
      field,
      message: `failure checking preference requirements: ${requirement?.message ?? ""}`,
    })),
  );
}

const SPEC_PATH = "spec.template.spec";

export interface Expansion {
  /** VM in which the values of the instancetype and preference replace the references to them. Valid only if `causes` is empty. */
  readonly vm: VirtualMachine;
  readonly causes: readonly Cause[];
}

const ANNOTATIONS: Readonly<Record<MatcherRole, Readonly<{ own: string; cluster: string }>>> = {
  instancetype: {
    own: names.INSTANCETYPE_ANNOTATION,
    cluster: names.CLUSTER_INSTANCETYPE_ANNOTATION,
  },
  preference: { own: names.PREFERENCE_ANNOTATION, cluster: names.CLUSTER_PREFERENCE_ANNOTATION },
};

function buildInstancetypeAnnotation(
  role: MatcherRole,
  { name = "", kind }: Matcher,
): Readonly<Record<string, string>> {
  const key = findMatchedType(role, kind)?.namespaced === true ? "own" : "cluster";
  return { [ANNOTATIONS[role][key]]: name };
}

function buildInstancetypeAnnotations(vm: VirtualMachine): Readonly<Record<string, string>> {
  return Object.fromEntries(
    MATCHER_ROLES.flatMap((role) => {
      const matcher = findMatcher(vm, role);
      return matcher === undefined
        ? []
        : Object.entries(buildInstancetypeAnnotation(role, matcher));
    }),
  );
}

/** Annotates the template with the names of the instancetype and preference. Source: KubeVirt pkg/instancetype/annotations. */
export function withInstancetypeNames(
  expanded: VirtualMachine,
  vm: VirtualMachine,
): VirtualMachine {
  const { template } = expanded.spec;
  const annotations = { ...template.metadata?.annotations, ...buildInstancetypeAnnotations(vm) };
  const metadata = { ...template.metadata, annotations };
  return { ...expanded, spec: { ...expanded.spec, template: { ...template, metadata } } };
}

type DataVolumes = VirtualMachine["spec"]["dataVolumeTemplates"];

function withClass(claim: unknown, storageClassName: string): unknown {
  return typeof claim === "object" && claim !== null ? { storageClassName, ...claim } : claim;
}

/** Sets the preferred storage class on DataVolumes that have no storage class. Source: KubeVirt setPreferenceStorageClassName. */
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

function listCauses(template: Template, specs: InstancetypeSpecs): readonly Cause[] {
  const { instancetype, preference } = specs;
  if (instancetype !== undefined) {
    const clashes = [
      ...findSpreadCauses(instancetype.cpu.guest, preference),
      ...listConflictCauses(template, instancetype, SPEC_PATH),
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
  return listRequirementCauses(specs, spec);
}

function isMatcherField(field: string): boolean {
  return MATCHER_ROLES.some((role) => role === field);
}

export function expandVm(vm: VirtualMachine, specs: InstancetypeSpecs): Expansion {
  const { instancetype, preference } = specs;
  if (instancetype === undefined && preference === undefined) return { vm, causes: [] };
  const { template, dataVolumeTemplates } = vm.spec;
  const causes = listCauses(template, specs);
  const vmWithInstancetype =
    instancetype === undefined ? template : withInstancetype(template, instancetype, preference);
  const vmWithPreference =
    preference === undefined ? vmWithInstancetype : withPreference(vmWithInstancetype, preference);
  const dataVolumes = withStorageClass(dataVolumeTemplates, preference);
  const otherFields = Object.entries(vm.spec).filter(([field]) => !isMatcherField(field));
  return {
    vm: {
      ...vm,
      spec: {
        // The cast is safe, because `otherFields` lacks only the matchers, which are optional.
        ...(Object.fromEntries(otherFields) as Partial<VirtualMachine["spec"]>),
        ...(dataVolumes === undefined ? {} : { dataVolumeTemplates: dataVolumes }),
        template: vmWithPreference,
      },
    },
    causes,
  };
}
