// SPDX-License-Identifier: Apache-2.0
// A VM with what it takes from its instancetype and its preference. Source: KubeVirt pkg/instancetype/expand.
import {
  names,
  type Cause,
  type Matcher,
  type PreferenceSpec,
  type VirtualMachine,
} from "@patchbay/api";
import { conflictCauses, withInstancetype, type Template } from "./apply/instancetype.ts";
import { withPreference } from "./apply/preference.ts";
import { spreadCauses } from "./apply/topology.ts";
import { matcherOf, partTypeOf, PARTS, type Part, type Parts } from "./parts.ts";
import { requirementCauses } from "./requirements.ts";

const BASE = "spec.template.spec";

/** A VM as its parts make it, and what of it does not go together with them. */
export interface Expansion {
  /** Without parts; where something does not go together, what it says itself stands. */
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

/** Of what the VMI was made, for people. */
function annotationOf(part: Part, { name = "", kind }: Matcher): Readonly<Record<string, string>> {
  const key = partTypeOf(part, kind)?.namespaced === true ? "own" : "cluster";
  return { [ANNOTATIONS[part][key]]: name };
}

function annotationsOf(vm: VirtualMachine): Readonly<Record<string, string>> {
  return Object.fromEntries(
    PARTS.flatMap((part) => {
      const matcher = matcherOf(vm, part);
      return matcher === undefined ? [] : Object.entries(annotationOf(part, matcher));
    }),
  );
}

/** The expanded VM, whose VMI is to tell of what the VM made it. Source: KubeVirt pkg/instancetype/annotations. */
export function withPartNames(expanded: VirtualMachine, vm: VirtualMachine): VirtualMachine {
  const { template } = expanded.spec;
  const annotations = { ...template.metadata?.annotations, ...annotationsOf(vm) };
  const metadata = { ...template.metadata, annotations };
  return { ...expanded, spec: { ...expanded.spec, template: { ...template, metadata } } };
}

type DataVolumes = VirtualMachine["spec"]["dataVolumeTemplates"];

function withClass(part: unknown, storageClassName: string): unknown {
  return typeof part === "object" && part !== null ? { storageClassName, ...part } : part;
}

/** DataVolumes that name no storage class have the preferred one. Source: KubeVirt setPreferenceStorageClassName. */
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

function causesOf(template: Template, parts: Parts): readonly Cause[] {
  const { instancetype, preference } = parts;
  if (instancetype !== undefined) {
    const clashes = [
      ...spreadCauses(instancetype.cpu.guest, preference),
      ...conflictCauses(template, instancetype, BASE),
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

/** Of a VM without parts, the VM. */
export function expandVm(vm: VirtualMachine, parts: Parts): Expansion {
  const { instancetype, preference } = parts;
  if (instancetype === undefined && preference === undefined) return { vm, causes: [] };
  const { template, dataVolumeTemplates } = vm.spec;
  const causes = causesOf(template, parts);
  const sized =
    instancetype === undefined ? template : withInstancetype(template, instancetype, preference);
  const suited = preference === undefined ? sized : withPreference(sized, preference);
  const dataVolumes = withStorageClass(dataVolumeTemplates, preference);
  const others = Object.entries(vm.spec).filter(([field]) => !isPart(field));
  return {
    vm: {
      ...vm,
      spec: {
        // All but the parts, of which there are none any more.
        ...(Object.fromEntries(others) as Partial<VirtualMachine["spec"]>),
        ...(dataVolumes === undefined ? {} : { dataVolumeTemplates: dataVolumes }),
        template: suited,
      },
    },
    causes,
  };
}
