// SPDX-License-Identifier: Apache-2.0
// Three-way merge by which a repeated `install` preserves operators' changes to a DaemonSet or Deployment.
import { names } from "@patchbay/api";
import { isJsonObject, type JsonObject, parseJson } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";
import { POD_CREATION_FLAGS } from "./pod-creation.ts";
import { SETTING_FLAGS, isWorkload } from "./settings.ts";

/** Annotation that `kubectl apply` writes. Source: kubectl. */
export const KUBECTL_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** Flags that `install` always sets. Their values depend on the options of `install`, or on the pod's ports and mounts. */
const OWN_FLAGS: ReadonlySet<string> = new Set([
  ...Object.values(SETTING_FLAGS).map((flag) => flag.replace("=", "")),
  ...POD_CREATION_FLAGS,
]);

/** Fields that `install` always sets. The options of `install` select `image`; the other fields must match the program. */
const OWN_MEMBERS: ReadonlySet<string> = new Set([
  "command",
  "hostNetwork",
  "image",
  "ports",
  "selector",
]);

/**
 * Fields that operators may set. If no earlier `install` recorded the value of such a field, a value that differs from the
 * manifest counts as an operator's change.
 */
const OPERATOR_MEMBERS: ReadonlySet<string> = new Set([
  "affinity",
  "args",
  "env",
  "imagePullSecrets",
  "nodeSelector",
  "priorityClassName",
  "replicas",
  "resources",
  "strategy",
  "tolerations",
  "topologySpreadConstraints",
  "updateStrategy",
]);

/** Fields that are replaced as a whole, because a mixture of two values is invalid. */
const ATOMIC_MEMBERS: ReadonlySet<string> = new Set(["strategy", "updateStrategy"]);

/** Maps the name of a list to the field that identifies its entries. Source: patchMergeKey in k8s.io/api/core/v1. */
const LIST_KEYS: ReadonlyMap<string, string> = new Map([
  ["containers", "name"],
  ["initContainers", "name"],
  ["env", "name"],
  ["imagePullSecrets", "name"],
  ["volumes", "name"],
  ["volumeMounts", "mountPath"],
]);
/** Lists in which an entry of the manifest always replaces the entry with the same key in the cluster. */
const OWN_ENTRIES: ReadonlySet<string> = new Set(["volumes", "volumeMounts"]);
/** Lists whose entries are merged field by field. */
const MERGED_ENTRIES: ReadonlySet<string> = new Set(["containers", "initContainers"]);

/** Versions of one value: written by the last `install`, found in the cluster, and wanted by this `install`. */
interface Versions {
  readonly base: unknown;
  readonly found: unknown;
  readonly wanted: unknown;
}

type Groups = ReadonlyMap<string, unknown>;

/** Groups arguments by flag. A group contains all occurrences of the flag, and arguments that follow the flag as its values. */
function groupByFlag(args: unknown): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, readonly string[]>();
  let flag = "";
  for (const arg of Array.isArray(args) ? args : []) {
    if (typeof arg !== "string") continue;
    if (arg.startsWith("-")) flag = arg.split("=", 1)[0] ?? arg;
    groups.set(flag, [...(groups.get(flag) ?? []), arg]);
  }
  return groups;
}

function groupByKey(list: unknown, key: string): Groups {
  const entries: readonly unknown[] = Array.isArray(list) ? list : [];
  return new Map(entries.filter(isJsonObject).map((entry) => [String(entry[key]), entry]));
}

function groupByMember(value: unknown): Groups {
  return new Map(isJsonObject(value) ? Object.entries(value) : []);
}

/** Returns whether `found` equals `base`. Ignores additional members of `found`, because the API server adds defaults. */
function isCovered(base: unknown, found: unknown): boolean {
  if (Array.isArray(base) && Array.isArray(found)) {
    return (
      base.length === found.length && base.every((item, index) => isCovered(item, found[index]))
    );
  }
  if (!isJsonObject(base) || !isJsonObject(found)) return isEqual(base, found);
  return Object.entries(base).every(([name, one]) => isCovered(one, found[name]));
}

/** Merges the versions of each key. The keys of `found` come first, in the order of the cluster's object. */
function mergeGroups(
  [base, found, wanted]: readonly [Groups, Groups, Groups],
  merge: (key: string, versions: Versions) => unknown,
): readonly (readonly [string, unknown])[] {
  return [...new Set([...found.keys(), ...wanted.keys()])].flatMap((key) => {
    const versions = { base: base.get(key), found: found.get(key), wanted: wanted.get(key) };
    const merged = merge(key, versions);
    return merged === undefined ? [] : [[key, merged] as const];
  });
}

function mergeAtomic(
  { base, found, wanted }: Versions,
  isOperatorField: boolean,
  isSame: (base: unknown, found: unknown) => boolean = isCovered,
): unknown {
  if (isEqual(base, wanted)) return found;
  if (found === undefined) return base === undefined ? wanted : undefined;
  if (base === undefined) return wanted === undefined || isOperatorField ? found : wanted;
  return isSame(base, found) ? wanted : found;
}

function mergeArguments({ base, found, wanted }: Versions): unknown {
  const groups = [groupByFlag(base), groupByFlag(found), groupByFlag(wanted)] as const;
  const merged = mergeGroups(groups, (flag, versions) =>
    OWN_FLAGS.has(flag) ? versions.wanted : mergeAtomic(versions, true),
  );
  const args = merged.flatMap(([, group]) => group);
  return args.length === 0 ? undefined : args;
}

function mergeList(name: string, key: string, { base, found, wanted }: Versions): unknown {
  const groups = [groupByKey(base, key), groupByKey(found, key), groupByKey(wanted, key)] as const;
  const merged = mergeGroups(groups, (_, versions) => {
    if (OWN_ENTRIES.has(name) && versions.wanted !== undefined) return versions.wanted;
    const isMerged = MERGED_ENTRIES.has(name) && isJsonObject(versions.wanted);
    return isMerged ? mergeMember("", versions, false) : mergeAtomic(versions, true);
  });
  return merged.length === 0 ? undefined : merged.map(([, entry]) => entry);
}

function mergeObjects({ base, found, wanted }: Versions, isOperatorField: boolean): unknown {
  const groups = [groupByMember(base), groupByMember(found), groupByMember(wanted)] as const;
  const merged = mergeGroups(groups, (name, versions) =>
    mergeMember(name, versions, isOperatorField),
  );
  return merged.length === 0 && wanted === undefined ? undefined : Object.fromEntries(merged);
}

/** Returns whether an object is merged member by member. An object that the manifest lacks is merged only if it is a map of strings. */
function isMergeable({ found, wanted }: Versions): boolean {
  if (!isJsonObject(found)) return false;
  const isTextMap = Object.values(found).every((one) => typeof one === "string");
  return isJsonObject(wanted) || (wanted === undefined && isTextMap);
}

function mergeMember(name: string, versions: Versions, isInherited: boolean): unknown {
  const isOperatorField = isInherited || OPERATOR_MEMBERS.has(name);
  const key = LIST_KEYS.get(name);
  if (OWN_MEMBERS.has(name)) return versions.wanted;
  if (name === "args") return mergeArguments(versions);
  if (key !== undefined) return mergeList(name, key, versions);
  if (ATOMIC_MEMBERS.has(name)) return mergeAtomic(versions, true);
  if (isMergeable(versions)) return mergeObjects(versions, isOperatorField);
  // A field that operators may set is unchanged only if it equals the last `install`'s value exactly. An additional member, for example of
  // a toleration, can change the field's meaning, so it counts as an operator's change. In other fields, it counts as a default of the API
  // server.
  return mergeAtomic(versions, isOperatorField, isOperatorField ? isEqual : isCovered);
}

function limitToFound(name: string, found: unknown, wanted: unknown): unknown {
  if (name === "args") {
    const present = groupByFlag(found);
    return [...groupByFlag(wanted)].flatMap(([flag, args]) => (present.has(flag) ? args : []));
  }
  const key = LIST_KEYS.get(name);
  if (key !== undefined && Array.isArray(wanted)) {
    const present = groupByKey(found, key);
    return wanted.filter((entry) => isJsonObject(entry) && present.has(String(entry[key])));
  }
  if (ATOMIC_MEMBERS.has(name) || !isJsonObject(found) || !isJsonObject(wanted)) return wanted;
  const common = Object.entries(wanted).filter(([member]) => member in found);
  return Object.fromEntries(
    common.map(([member, one]) => [member, limitToFound(member, found[member], one)]),
  );
}

/**
 * Estimates what the last `install` wrote, when no record of it exists. A difference in a field of {@link OPERATOR_MEMBERS} counts as
 * an operator's change. Other fields count as unchanged since the last `install`.
 */
function estimateBase(name: string, found: unknown, wanted: unknown): unknown {
  if (OPERATOR_MEMBERS.has(name)) return limitToFound(name, found, wanted);
  const key = MERGED_ENTRIES.has(name) ? LIST_KEYS.get(name) : undefined;
  if (key !== undefined && Array.isArray(found)) {
    const entries = groupByKey(wanted, key);
    return found
      .filter(isJsonObject)
      .map((entry) => estimateBase("", entry, entries.get(String(entry[key]))));
  }
  if (!isJsonObject(found) || !isJsonObject(wanted)) return found;
  return Object.fromEntries(
    Object.entries(found).map(([member, one]) => [
      member,
      estimateBase(member, one, wanted[member]),
    ]),
  );
}

export function mergeSpec(
  base: JsonObject | undefined,
  found: JsonObject,
  wanted: JsonObject,
): JsonObject {
  const baseSpec = base ?? estimateBase("", found, wanted);
  const merged = mergeObjects({ base: baseSpec, found, wanted }, false);
  return isJsonObject(merged) ? merged : wanted;
}

export function lastInstalled({ metadata }: KubeObject): JsonObject | undefined {
  const { annotations = {} } = metadata;
  const own = parseJson(annotations[names.LAST_INSTALLED_ANNOTATION]);
  if (isJsonObject(own)) return own;
  const applied = parseJson(annotations[KUBECTL_APPLIED]);
  const spec = isJsonObject(applied) ? applied["spec"] : undefined;
  return isJsonObject(spec) ? spec : undefined;
}

export function withLastInstalled(object: KubeObject): KubeObject {
  const { spec } = object as KubeObject & { readonly spec?: unknown };
  const note = { [names.LAST_INSTALLED_ANNOTATION]: JSON.stringify(spec) };
  const { metadata } = object;
  return {
    ...object,
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...note } },
  };
}

type Fields = Readonly<Record<string, unknown>>;

function readFields(object: Fields, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

function findNamed(list: unknown, name: unknown): JsonObject {
  const found: unknown = Array.isArray(list)
    ? list.find((entry: unknown) => isJsonObject(entry) && entry["name"] === name)
    : undefined;
  return isJsonObject(found) ? found : {};
}

/** Retains the CA bundle of the cluster's object. virt-api wrote the bundle, and the manifests contain none. */
function withBundle(found: JsonObject, wanted: JsonObject): JsonObject {
  const { caBundle } = found;
  return caBundle === undefined ? wanted : { caBundle, ...wanted };
}

function withBundles(found: Fields, wanted: Fields): Fields {
  const { webhooks } = wanted;
  if (!Array.isArray(webhooks)) return {};
  const merged = webhooks.filter(isJsonObject).map((webhook) => {
    const before = findNamed(found["webhooks"], webhook["name"]);
    const clientConfig = withBundle(
      readFields(before, "clientConfig"),
      readFields(webhook, "clientConfig"),
    );
    return { ...webhook, clientConfig };
  });
  return { webhooks: merged };
}

function mergeSpecs(existing: KubeObject, wanted: KubeObject): Fields {
  const [found, spec] = [readFields({ ...existing }, "spec"), readFields({ ...wanted }, "spec")];
  if (wanted.kind === "APIService") return { spec: withBundle(found, spec) };
  return isWorkload(wanted) ? { spec: mergeSpec(lastInstalled(existing), found, spec) } : {};
}

/**
 * Returns the object that replaces `found`. Preserves the CA bundles of webhooks and APIServices, the changes that operators made
 * to a workload, and all labels, annotations and other fields that the manifest lacks.
 */
export function buildReplacement(found: KubeObject, wanted: KubeObject): KubeObject {
  const [before, after]: readonly [Fields, Fields] = [{ ...found }, { ...wanted }];
  const metadata = {
    ...found.metadata,
    labels: { ...found.metadata.labels, ...wanted.metadata.labels },
    annotations: { ...found.metadata.annotations, ...wanted.metadata.annotations },
  };
  const spec = mergeSpecs(found, wanted);
  return { ...found, ...wanted, ...spec, ...withBundles(before, after), metadata };
}

/** Fields of metadata that every write changes. */
const VOLATILE_METADATA: readonly string[] = ["managedFields", "resourceVersion", "generation"];

/** Returns the object without bookkeeping fields, to detect real changes. */
export function withoutVolatileMetadata(object: KubeObject): unknown {
  const { labels = {}, annotations = {}, ...rest } = object.metadata;
  const retained = Object.entries(rest).filter(([name]) => !VOLATILE_METADATA.includes(name));
  return { ...object, metadata: { ...Object.fromEntries(retained), labels, annotations } };
}
