// SPDX-License-Identifier: Apache-2.0
// Which instancetype or preference the volume names that a VM points to: by labels of its claim, of its DataVolume, or of what
// fills that. Source: KubeVirt pkg/instancetype/infer, whose order and words these are.
import {
  DATA_SOURCES,
  DATA_VOLUMES,
  isJsonObject,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  type JsonObject,
  type KubeObject,
  type Matcher,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import { dropAbsent } from "../drop-absent.ts";
import type { ObjectKey } from "../ports/store.ts";
import { defaultKindOf, matcherOf, PARTS, type Part } from "./parts.ts";

/** Finds an object; undefined also where nobody serves its kind. */
export type FindObject = <T extends KubeObject>(
  type: ResourceType<T>,
  key: ObjectKey,
) => Promise<T | undefined>;

/** What a volume says of a part. */
type Inference =
  | { readonly kind: "named"; readonly name: string; readonly objectKind: string }
  /** It says nothing: `inferFromVolumeFailurePolicy: Ignore` does without. */
  | { readonly kind: "silent"; readonly message: string }
  /** It, or what it is of, is not there: refused, whatever the policy. */
  | { readonly kind: "missing"; readonly message: string };

const LABELS: Readonly<Record<Part, Readonly<{ name: string; kind: string }>>> = {
  instancetype: {
    name: names.DEFAULT_INSTANCETYPE_LABEL,
    kind: names.DEFAULT_INSTANCETYPE_KIND_LABEL,
  },
  preference: { name: names.DEFAULT_PREFERENCE_LABEL, kind: names.DEFAULT_PREFERENCE_KIND_LABEL },
};

/** What is asked for, and where it is looked for. */
interface Search {
  readonly part: Part;
  readonly namespace: string;
  readonly find: FindObject;
}

// Nothing of a VM at admission, or of CDI's objects, was judged before: each step of a path is looked at.
function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, field) => (isJsonObject(inner) ? inner[field] : undefined),
    value,
  );
}

function textAt(value: unknown, ...path: readonly string[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === "string" && found !== "" ? found : undefined;
}

function silent(message: string): Inference {
  return { kind: "silent", message: `unable to ${message}` };
}

function fromLabels({ metadata }: KubeObject, part: Part): Inference {
  const { name, kind } = LABELS[part];
  const { labels = {} } = metadata;
  const found = labels[name];
  return found === undefined
    ? silent(`find required ${name} label on the volume`)
    : { kind: "named", name: found, objectKind: labels[kind] ?? "" };
}

function missing({ resource, group }: ResourceType<KubeObject>, name: string): Inference {
  const type = group === "" ? resource : `${resource}.${group}`;
  return { kind: "missing", message: `${type} "${name}" not found` };
}

async function fromClaim({ part, namespace, find }: Search, name: string): Promise<Inference> {
  const claim = await find(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  return claim === undefined ? missing(PERSISTENT_VOLUME_CLAIMS, name) : fromLabels(claim, part);
}

/** A claim that something is copied of, in its own namespace where it names one. */
function fromSourceClaim(search: Search, source: unknown): Promise<Inference> {
  const namespace = textAt(source, "namespace") ?? search.namespace;
  return fromClaim({ ...search, namespace }, textAt(source, "name") ?? "");
}

async function fromDataSource(search: Search, ref: unknown): Promise<Inference> {
  const kind = textAt(ref, "kind") ?? "";
  if (kind !== DATA_SOURCES.kind)
    return silent(`infer defaults from DataVolumeSourceRef as Kind ${kind} is not supported`);
  const namespace = textAt(ref, "namespace") ?? search.namespace;
  const name = textAt(ref, "name") ?? "";
  const source = await search.find(DATA_SOURCES, { namespace, name });
  if (source === undefined) return missing(DATA_SOURCES, name);
  const own = fromLabels(source, search.part);
  if (own.kind === "named") return own;
  const claim = at(source, "spec", "source", "pvc");
  return isJsonObject(claim)
    ? fromSourceClaim({ ...search, namespace }, claim)
    : silent("infer defaults from DataSource that doesn't provide DataVolumeSourcePVC");
}

function fromDataVolumeSpec(search: Search, spec: unknown): Promise<Inference> {
  const claim = at(spec, "source", "pvc");
  if (isJsonObject(claim)) return fromSourceClaim(search, claim);
  const ref = at(spec, "sourceRef");
  if (isJsonObject(ref)) return fromDataSource(search, ref);
  const message = "infer defaults from DataVolumeSpec as DataVolumeSource is not supported";
  return Promise.resolve(silent(message));
}

async function fromDataVolume(
  search: Search,
  { spec }: VirtualMachine,
  name: string,
): Promise<Inference> {
  const given: unknown = spec.dataVolumeTemplates;
  const templates: readonly unknown[] = Array.isArray(given) ? given : [];
  const template = templates.find((one) => textAt(one, "metadata", "name") === name);
  if (template !== undefined) return fromDataVolumeSpec(search, at(template, "spec"));
  const { namespace, find, part } = search;
  const dataVolume = await find(DATA_VOLUMES, { namespace, name });
  // CDI takes DataVolumes away that are filled; the claim of the name stays.
  if (dataVolume === undefined) return fromClaim(search, name);
  const own = fromLabels(dataVolume, part);
  return own.kind === "named" ? own : fromDataVolumeSpec(search, dataVolume.spec);
}

function volumeOf({ spec }: VirtualMachine, name: string): JsonObject | undefined {
  const volumes = at(spec, "template", "spec", "volumes");
  const all: readonly unknown[] = Array.isArray(volumes) ? volumes : [];
  return all.filter(isJsonObject).find((volume) => volume["name"] === name);
}

/** What the volume says to which the VM's part points; undefined: it points to none. */
async function inferPart(
  vm: VirtualMachine,
  part: Part,
  find: FindObject,
): Promise<Inference | undefined> {
  const { inferFromVolume: name = "" } = matcherOf(vm, part) ?? {};
  if (name === "") return undefined;
  const search: Search = { part, namespace: vm.metadata.namespace ?? "", find };
  const volume = volumeOf(vm, name);
  if (volume === undefined)
    return { kind: "missing", message: `unable to find volume ${name} to infer defaults` };
  const claim = textAt(volume, "persistentVolumeClaim", "claimName");
  if (claim !== undefined) return fromClaim(search, claim);
  const dataVolume = textAt(volume, "dataVolume", "name");
  if (dataVolume !== undefined) return fromDataVolume(search, vm, dataVolume);
  return silent(`infer defaults from volume ${name} as type is not supported`);
}

/** The VM with the names that its volumes say, or why it may not be stored. */
export type InferredVm =
  | { readonly kind: "vm"; readonly vm: VirtualMachine }
  | { readonly kind: "refused"; readonly message: string };

function withPart(vm: VirtualMachine, part: Part, matcher: Matcher | undefined): VirtualMachine {
  const others = Object.entries(vm.spec).filter(([field]) => field !== part);
  const own = matcher === undefined ? [] : [[part, matcher] as const];
  // All but one part, which is another one or gone.
  return {
    ...vm,
    spec: Object.fromEntries([...others, ...own]) as unknown as VirtualMachine["spec"],
  };
}

/** An instancetype that was found by chance says how much memory there is. Source: KubeVirt, which empties it so. */
function withoutMemory(vm: VirtualMachine): VirtualMachine {
  const { template } = vm.spec;
  const domain = dropAbsent({ ...template.spec.domain, memory: undefined });
  return {
    ...vm,
    spec: { ...vm.spec, template: { ...template, spec: { ...template.spec, domain } } },
  };
}

function withInference(vm: VirtualMachine, part: Part, inference: Inference): InferredVm {
  const isLenient = matcherOf(vm, part)?.inferFromVolumeFailurePolicy === "Ignore";
  if (inference.kind === "named") {
    const { name, objectKind } = inference;
    const kind = objectKind === "" ? defaultKindOf(part) : objectKind;
    const named = withPart(vm, part, { name, kind });
    return { kind: "vm", vm: isLenient && part === "instancetype" ? withoutMemory(named) : named };
  }
  return inference.kind === "silent" && isLenient
    ? { kind: "vm", vm: withPart(vm, part, undefined) }
    : { kind: "refused", message: inference.message };
}

/** Finds the names of the parts that the VM leaves to its volumes; it names its namespace, and its shape need not be judged yet. */
export async function inferParts(vm: VirtualMachine, find: FindObject): Promise<InferredVm> {
  let inferred: InferredVm = { kind: "vm", vm };
  for (const part of PARTS) {
    const inference = await inferPart(vm, part, find);
    if (inference !== undefined) inferred = withInference(inferred.vm, part, inference);
    if (inferred.kind === "refused") return inferred;
  }
  return inferred;
}
