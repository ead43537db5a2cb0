// SPDX-License-Identifier: Apache-2.0
// Infers the instancetype or preference of a VM from labels of its volume. Source: KubeVirt pkg/instancetype/infer.
import {
  DATA_SOURCES,
  DATA_VOLUMES,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type Matcher,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import { isJsonObject, readTextAt, valueAt, type JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { omitUndefined } from "@patchbay/base";
import type { ObjectKey } from "../interfaces/store.ts";
import { findDefaultKind, findMatcher, MATCHER_ROLES, type MatcherRole } from "./matchers.ts";

/** Finds an object. Also returns undefined if the API server does not serve the kind. */
export type FindObject = <T extends KubeObject>(
  type: ResourceType<T>,
  key: ObjectKey,
) => Promise<T | undefined>;

type Inference =
  | { readonly kind: "named"; readonly name: string; readonly objectKind: string }
  /** The volume has no label or an unsupported type. `inferFromVolumeFailurePolicy: Ignore` permits this result. */
  | { readonly kind: "notInferable"; readonly message: string }
  /** The volume or its source does not exist. Admission rejects the VM regardless of the policy. */
  | { readonly kind: "missing"; readonly message: string };

const INFERENCE_LABELS: Readonly<Record<MatcherRole, Readonly<{ name: string; kind: string }>>> = {
  instancetype: {
    name: names.DEFAULT_INSTANCETYPE_LABEL,
    kind: names.DEFAULT_INSTANCETYPE_KIND_LABEL,
  },
  preference: { name: names.DEFAULT_PREFERENCE_LABEL, kind: names.DEFAULT_PREFERENCE_KIND_LABEL },
};

interface InferenceSearch {
  readonly role: MatcherRole;
  readonly namespace: string;
  readonly find: FindObject;
}

function refuseInference(message: string): Inference {
  return { kind: "notInferable", message: `unable to ${message}` };
}

function inferFromLabels({ metadata }: KubeObject, role: MatcherRole): Inference {
  const { name, kind } = INFERENCE_LABELS[role];
  const { labels = {} } = metadata;
  const labelValue = labels[name];
  return labelValue === undefined
    ? refuseInference(`find required ${name} label on the volume`)
    : { kind: "named", name: labelValue, objectKind: labels[kind] ?? "" };
}

function notFound({ resource, group }: ResourceType<KubeObject>, name: string): Inference {
  const type = group === "" ? resource : `${resource}.${group}`;
  return { kind: "missing", message: `${type} "${name}" not found` };
}

async function inferFromClaim(
  { role, namespace, find }: InferenceSearch,
  name: string,
): Promise<Inference> {
  const claim = await find(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  return claim === undefined
    ? notFound(PERSISTENT_VOLUME_CLAIMS, name)
    : inferFromLabels(claim, role);
}

function inferFromSourceClaim(search: InferenceSearch, source: unknown): Promise<Inference> {
  const namespace = readTextAt(source, "namespace") ?? search.namespace;
  return inferFromClaim({ ...search, namespace }, readTextAt(source, "name") ?? "");
}

async function inferFromDataSource(search: InferenceSearch, ref: unknown): Promise<Inference> {
  const kind = readTextAt(ref, "kind") ?? "";
  if (kind !== DATA_SOURCES.kind)
    return refuseInference(
      `infer defaults from DataVolumeSourceRef as Kind ${kind} is not supported`,
    );
  const namespace = readTextAt(ref, "namespace") ?? search.namespace;
  const name = readTextAt(ref, "name") ?? "";
  const source = await search.find(DATA_SOURCES, { namespace, name });
  if (source === undefined) return notFound(DATA_SOURCES, name);
  const ownInference = inferFromLabels(source, search.role);
  if (ownInference.kind === "named") return ownInference;
  const claim = valueAt(source, "spec", "source", "pvc");
  return isJsonObject(claim)
    ? inferFromSourceClaim({ ...search, namespace }, claim)
    : refuseInference("infer defaults from DataSource that doesn't provide DataVolumeSourcePVC");
}

function inferFromDataVolumeSpec(search: InferenceSearch, spec: unknown): Promise<Inference> {
  const claim = valueAt(spec, "source", "pvc");
  if (isJsonObject(claim)) return inferFromSourceClaim(search, claim);
  const ref = valueAt(spec, "sourceRef");
  if (isJsonObject(ref)) return inferFromDataSource(search, ref);
  const message = "infer defaults from DataVolumeSpec as DataVolumeSource is not supported";
  return Promise.resolve(refuseInference(message));
}

async function inferFromDataVolume(
  search: InferenceSearch,
  { spec }: VirtualMachine,
  name: string,
): Promise<Inference> {
  const declaredTemplates: unknown = spec.dataVolumeTemplates;
  const templates: readonly unknown[] = Array.isArray(declaredTemplates) ? declaredTemplates : [];
  const template = templates.find(
    (candidate) => readTextAt(candidate, "metadata", "name") === name,
  );
  if (template !== undefined) return inferFromDataVolumeSpec(search, valueAt(template, "spec"));
  const { namespace, find, role } = search;
  const dataVolume = await find(DATA_VOLUMES, { namespace, name });
  // Falls back to the claim with the same name, because CDI deletes completed DataVolumes, but not their claims.
  if (dataVolume === undefined) return inferFromClaim(search, name);
  const ownInference = inferFromLabels(dataVolume, role);
  return ownInference.kind === "named"
    ? ownInference
    : inferFromDataVolumeSpec(search, dataVolume.spec);
}

function findVolume({ spec }: VirtualMachine, name: string): JsonObject | undefined {
  const volumes = valueAt(spec, "template", "spec", "volumes");
  const candidates: readonly unknown[] = Array.isArray(volumes) ? volumes : [];
  return candidates.filter(isJsonObject).find((volume) => volume["name"] === name);
}

async function inferMatcher(
  vm: VirtualMachine,
  role: MatcherRole,
  find: FindObject,
): Promise<Inference | undefined> {
  const { inferFromVolume: name = "" } = findMatcher(vm, role) ?? {};
  if (name === "") return undefined;
  const search: InferenceSearch = { role, namespace: vm.metadata.namespace ?? "", find };
  const volume = findVolume(vm, name);
  if (volume === undefined)
    return { kind: "missing", message: `unable to find volume ${name} to infer defaults` };
  const claim = readTextAt(volume, "persistentVolumeClaim", "claimName");
  if (claim !== undefined) return inferFromClaim(search, claim);
  const dataVolume = readTextAt(volume, "dataVolume", "name");
  if (dataVolume !== undefined) return inferFromDataVolume(search, vm, dataVolume);
  return refuseInference(`infer defaults from volume ${name} as type is not supported`);
}

export type InferredVm =
  | { readonly kind: "vm"; readonly vm: VirtualMachine }
  | { readonly kind: "refused"; readonly message: string };

function withMatcher(
  vm: VirtualMachine,
  role: MatcherRole,
  matcher: Matcher | undefined,
): VirtualMachine {
  const otherFields = Object.entries(vm.spec).filter(([field]) => field !== role);
  const matcherFields = matcher === undefined ? [] : [[role, matcher] as const];
  return {
    ...vm,
    spec: Object.fromEntries([
      ...otherFields,
      ...matcherFields,
    ]) as unknown as VirtualMachine["spec"],
  };
}

/** Removes the template's memory, because the inferred instancetype sets it. As in KubeVirt, used only for failure policy `Ignore`. */
function withoutMemory(vm: VirtualMachine): VirtualMachine {
  const { template } = vm.spec;
  const domain = omitUndefined({ ...template.spec.domain, memory: undefined });
  return {
    ...vm,
    spec: { ...vm.spec, template: { ...template, spec: { ...template.spec, domain } } },
  };
}

function withInference(vm: VirtualMachine, role: MatcherRole, inference: Inference): InferredVm {
  const ignoresFailure = findMatcher(vm, role)?.inferFromVolumeFailurePolicy === "Ignore";
  if (inference.kind === "named") {
    const { name, objectKind } = inference;
    const kind = objectKind === "" ? findDefaultKind(role) : objectKind;
    const vmWithMatcher = withMatcher(vm, role, { name, kind });
    return {
      kind: "vm",
      vm: ignoresFailure && role === "instancetype" ? withoutMemory(vmWithMatcher) : vmWithMatcher,
    };
  }
  return inference.kind === "notInferable" && ignoresFailure
    ? { kind: "vm", vm: withMatcher(vm, role, undefined) }
    : { kind: "refused", message: inference.message };
}

/** Fills in name and kind of each matcher that infers them from a volume. The VM must have a namespace, but may otherwise be invalid. */
export async function inferInstancetypes(
  vm: VirtualMachine,
  find: FindObject,
): Promise<InferredVm> {
  let inferred: InferredVm = { kind: "vm", vm };
  for (const role of MATCHER_ROLES) {
    const inference = await inferMatcher(vm, role, find);
    if (inference !== undefined) inferred = withInference(inferred.vm, role, inference);
    if (inferred.kind === "refused") return inferred;
  }
  return inferred;
}
