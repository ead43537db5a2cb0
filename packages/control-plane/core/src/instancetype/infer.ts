// SPDX-License-Identifier: Apache-2.0
// Infers the instancetype or preference from a VM's volume: from labels of its claim, its DataVolume or the data source.
// Source: KubeVirt pkg/instancetype/infer, including order and messages.
import {
  DATA_SOURCES,
  DATA_VOLUMES,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type Matcher,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { omitUndefined } from "@patchbay/base";
import type { ObjectKey } from "../interfaces/store.ts";
import { findDefaultKind, findMatcher, PARTS, type Part } from "./parts.ts";

/** Finds an object. Returns undefined even if the API server does not serve the kind. */
export type FindObject = <T extends KubeObject>(
  type: ResourceType<T>,
  key: ObjectKey,
) => Promise<T | undefined>;

type Inference =
  | { readonly kind: "named"; readonly name: string; readonly objectKind: string }
  /** The volume has no label, or an unsupported type. `inferFromVolumeFailurePolicy: Ignore` tolerates this. */
  | { readonly kind: "notInferable"; readonly message: string }
  /** The volume or its source does not exist. The VM is rejected regardless of the policy. */
  | { readonly kind: "missing"; readonly message: string };

const LABELS: Readonly<Record<Part, Readonly<{ name: string; kind: string }>>> = {
  instancetype: {
    name: names.DEFAULT_INSTANCETYPE_LABEL,
    kind: names.DEFAULT_INSTANCETYPE_KIND_LABEL,
  },
  preference: { name: names.DEFAULT_PREFERENCE_LABEL, kind: names.DEFAULT_PREFERENCE_KIND_LABEL },
};

interface Search {
  readonly part: Part;
  readonly namespace: string;
  readonly find: FindObject;
}

// VMs at admission and CDI's objects are not validated yet, so each step checks the type.
function valueAt(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, field) => (isJsonObject(inner) ? inner[field] : undefined),
    value,
  );
}

function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = valueAt(value, ...path);
  return typeof found === "string" && found !== "" ? found : undefined;
}

function notInferable(message: string): Inference {
  return { kind: "notInferable", message: `unable to ${message}` };
}

function fromLabels({ metadata }: KubeObject, part: Part): Inference {
  const { name, kind } = LABELS[part];
  const { labels = {} } = metadata;
  const found = labels[name];
  return found === undefined
    ? notInferable(`find required ${name} label on the volume`)
    : { kind: "named", name: found, objectKind: labels[kind] ?? "" };
}

function notFound({ resource, group }: ResourceType<KubeObject>, name: string): Inference {
  const type = group === "" ? resource : `${resource}.${group}`;
  return { kind: "missing", message: `${type} "${name}" not found` };
}

async function fromClaim({ part, namespace, find }: Search, name: string): Promise<Inference> {
  const claim = await find(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  return claim === undefined ? notFound(PERSISTENT_VOLUME_CLAIMS, name) : fromLabels(claim, part);
}

/** Reads the labels of a source's claim. The namespace defaults to the search's. */
function fromSourceClaim(search: Search, source: unknown): Promise<Inference> {
  const namespace = textAt(source, "namespace") ?? search.namespace;
  return fromClaim({ ...search, namespace }, textAt(source, "name") ?? "");
}

async function fromDataSource(search: Search, ref: unknown): Promise<Inference> {
  const kind = textAt(ref, "kind") ?? "";
  if (kind !== DATA_SOURCES.kind)
    return notInferable(`infer defaults from DataVolumeSourceRef as Kind ${kind} is not supported`);
  const namespace = textAt(ref, "namespace") ?? search.namespace;
  const name = textAt(ref, "name") ?? "";
  const source = await search.find(DATA_SOURCES, { namespace, name });
  if (source === undefined) return notFound(DATA_SOURCES, name);
  const own = fromLabels(source, search.part);
  if (own.kind === "named") return own;
  const claim = valueAt(source, "spec", "source", "pvc");
  return isJsonObject(claim)
    ? fromSourceClaim({ ...search, namespace }, claim)
    : notInferable("infer defaults from DataSource that doesn't provide DataVolumeSourcePVC");
}

function fromDataVolumeSpec(search: Search, spec: unknown): Promise<Inference> {
  const claim = valueAt(spec, "source", "pvc");
  if (isJsonObject(claim)) return fromSourceClaim(search, claim);
  const ref = valueAt(spec, "sourceRef");
  if (isJsonObject(ref)) return fromDataSource(search, ref);
  const message = "infer defaults from DataVolumeSpec as DataVolumeSource is not supported";
  return Promise.resolve(notInferable(message));
}

async function fromDataVolume(
  search: Search,
  { spec }: VirtualMachine,
  name: string,
): Promise<Inference> {
  const declared: unknown = spec.dataVolumeTemplates;
  const templates: readonly unknown[] = Array.isArray(declared) ? declared : [];
  const template = templates.find((one) => textAt(one, "metadata", "name") === name);
  if (template !== undefined) return fromDataVolumeSpec(search, valueAt(template, "spec"));
  const { namespace, find, part } = search;
  const dataVolume = await find(DATA_VOLUMES, { namespace, name });
  // CDI garbage-collects completed DataVolumes; the claim with the same name remains.
  if (dataVolume === undefined) return fromClaim(search, name);
  const own = fromLabels(dataVolume, part);
  return own.kind === "named" ? own : fromDataVolumeSpec(search, dataVolume.spec);
}

function findVolume({ spec }: VirtualMachine, name: string): JsonObject | undefined {
  const volumes = valueAt(spec, "template", "spec", "volumes");
  const all: readonly unknown[] = Array.isArray(volumes) ? volumes : [];
  return all.filter(isJsonObject).find((volume) => volume["name"] === name);
}

async function inferPart(
  vm: VirtualMachine,
  part: Part,
  find: FindObject,
): Promise<Inference | undefined> {
  const { inferFromVolume: name = "" } = findMatcher(vm, part) ?? {};
  if (name === "") return undefined;
  const search: Search = { part, namespace: vm.metadata.namespace ?? "", find };
  const volume = findVolume(vm, name);
  if (volume === undefined)
    return { kind: "missing", message: `unable to find volume ${name} to infer defaults` };
  const claim = textAt(volume, "persistentVolumeClaim", "claimName");
  if (claim !== undefined) return fromClaim(search, claim);
  const dataVolume = textAt(volume, "dataVolume", "name");
  if (dataVolume !== undefined) return fromDataVolume(search, vm, dataVolume);
  return notInferable(`infer defaults from volume ${name} as type is not supported`);
}

export type InferredVm =
  | { readonly kind: "vm"; readonly vm: VirtualMachine }
  | { readonly kind: "refused"; readonly message: string };

function withPart(vm: VirtualMachine, part: Part, matcher: Matcher | undefined): VirtualMachine {
  const others = Object.entries(vm.spec).filter(([field]) => field !== part);
  const own = matcher === undefined ? [] : [[part, matcher] as const];
  return {
    ...vm,
    spec: Object.fromEntries([...others, ...own]) as unknown as VirtualMachine["spec"],
  };
}

/** Removes the template's memory, because the inferred instancetype sets it. Source: KubeVirt. */
function withoutMemory(vm: VirtualMachine): VirtualMachine {
  const { template } = vm.spec;
  const domain = omitUndefined({ ...template.spec.domain, memory: undefined });
  return {
    ...vm,
    spec: { ...vm.spec, template: { ...template, spec: { ...template.spec, domain } } },
  };
}

function withInference(vm: VirtualMachine, part: Part, inference: Inference): InferredVm {
  const isLenient = findMatcher(vm, part)?.inferFromVolumeFailurePolicy === "Ignore";
  if (inference.kind === "named") {
    const { name, objectKind } = inference;
    const kind = objectKind === "" ? findDefaultKind(part) : objectKind;
    const named = withPart(vm, part, { name, kind });
    return { kind: "vm", vm: isLenient && part === "instancetype" ? withoutMemory(named) : named };
  }
  return inference.kind === "notInferable" && isLenient
    ? { kind: "vm", vm: withPart(vm, part, undefined) }
    : { kind: "refused", message: inference.message };
}

/** Infers the names in the VM's matchers. The VM must have a namespace, but need not be valid. */
export async function inferParts(vm: VirtualMachine, find: FindObject): Promise<InferredVm> {
  let inferred: InferredVm = { kind: "vm", vm };
  for (const part of PARTS) {
    const inference = await inferPart(vm, part, find);
    if (inference !== undefined) inferred = withInference(inferred.vm, part, inference);
    if (inferred.kind === "refused") return inferred;
  }
  return inferred;
}
