// SPDX-License-Identifier: Apache-2.0
// Parser of DataVolumes for standalone machines, where Patchbay fills claims. Source: CDI DataVolumeSpec v1beta1.
import { isJsonObject } from "@patchbay/api/json";
import type { Cause, VolumeMode } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";

type FillSource =
  | { readonly kind: "registry"; readonly image: string }
  | { readonly kind: "http"; readonly url: string }
  | { readonly kind: "pvc"; readonly claimName: string };

export interface FillOrder {
  readonly source: FillSource;
  readonly size: string;
  readonly accessModes: readonly string[];
  readonly volumeMode: VolumeMode;
  /** Storage class of the claim. If unset, the default class applies. */
  readonly storageClassName?: string;
}

/** Claim annotation with the progress of the import, as a pod phase. Source: CDI AnnPodPhase. */
export const FILL_PHASE_ANNOTATION = "cdi.kubevirt.io/storage.pod.phase";
/** Claim annotation whose value is `Error` if the last import failed. Source: CDI AnnRunningConditionReason. */
export const FILL_STATE_ANNOTATION = "cdi.kubevirt.io/storage.condition.running.reason";
/** Claim annotation that explains why the last import failed. Source: CDI AnnRunningConditionMessage. */
export const FILL_MESSAGE_ANNOTATION = "cdi.kubevirt.io/storage.condition.running.message";
export const FILLED = "Succeeded";

const SOURCE_KINDS = ["registry", "http", "pvc"] as const;
const REGISTRY_SCHEME = "docker://";
const ACCESS_MODES = ["ReadWriteOnce"];

type Fields = Readonly<Record<string, unknown>>;

class Reader {
  readonly causes: Cause[] = [];

  require(field: string, message: string): void {
    this.causes.push({ reason: "FieldValueRequired", field, message: `${field}: ${message}` });
  }

  refuse(field: string, message: string): void {
    this.causes.push({ reason: "FieldValueNotSupported", field, message: `${field}: ${message}` });
  }

  invalid(field: string, message: string): void {
    this.causes.push({ reason: "FieldValueInvalid", field, message: `${field}: ${message}` });
  }

  fields(value: unknown): Fields {
    return isJsonObject(value) ? value : {};
  }

  refuseOthers(fields: Fields, path: string, knownFields: readonly string[]): void {
    for (const name of Object.keys(fields).filter((field) => !knownFields.includes(field))) {
      this.refuse(`${path}.${name}`, `is not supported on a standalone machine; remove it`);
    }
  }

  text(fields: Fields, path: string, name: string): string | undefined {
    const value = fields[name];
    if (typeof value === "string" && value !== "") return value;
    this.require(`${path}.${name}`, "is missing");
    return undefined;
  }
}

function readRegistry(reader: Reader, fields: Fields, path: string): FillSource | undefined {
  reader.refuseOthers(fields, path, ["url", "pullMethod"]);
  const url = reader.text(fields, path, "url");
  if (url === undefined) return undefined;
  const image = url.startsWith(REGISTRY_SCHEME) ? url.slice(REGISTRY_SCHEME.length) : "";
  if (image === "") {
    reader.invalid(`${path}.url`, `${url} must be ${REGISTRY_SCHEME}IMAGE`);
    return undefined;
  }
  return { kind: "registry", image };
}

function isHttpUrl(text: string): boolean {
  return /^https?:\/\/[^\s/]+(\/\S*)?$/.test(text);
}

function readHttp(reader: Reader, fields: Fields, path: string): FillSource | undefined {
  reader.refuseOthers(fields, path, ["url"]);
  const url = reader.text(fields, path, "url");
  if (url === undefined) return undefined;
  if (!isHttpUrl(url)) {
    reader.invalid(`${path}.url`, `${url} must be http://HOST/PATH or https://HOST/PATH`);
    return undefined;
  }
  return { kind: "http", url };
}

function readClaim(
  reader: Reader,
  fields: Fields,
  { path, namespace }: { readonly path: string; readonly namespace: string },
): FillSource | undefined {
  reader.refuseOthers(fields, path, ["name", "namespace"]);
  const claimName = reader.text(fields, path, "name");
  const sourceNamespace = fields["namespace"] ?? namespace;
  if (sourceNamespace !== namespace) {
    reader.refuse(
      `${path}.namespace`,
      `claims are copied within their namespace only, which is ${namespace}; export the disk, and name it by http`,
    );
    return undefined;
  }
  return claimName === undefined ? undefined : { kind: "pvc", claimName };
}

function readSource(reader: Reader, spec: Fields, namespace: string): FillSource | undefined {
  const value = reader.fields(spec["source"]);
  const [name, ...otherNames] = Object.keys(value);
  if (name === undefined || otherNames.length > 0) {
    reader.require("spec.source", `must have exactly one of ${SOURCE_KINDS.join(", ")}`);
    return undefined;
  }
  const path = `spec.source.${name}`;
  const fields = reader.fields(value[name]);
  if (name === "registry") return readRegistry(reader, fields, path);
  if (name === "http") return readHttp(reader, fields, path);
  if (name === "pvc") return readClaim(reader, fields, { path, namespace });
  const advice = name === "blank" ? "; a new PersistentVolumeClaim is an empty disk" : "";
  reader.refuse(
    path,
    `is not supported on a standalone machine: use one of ${SOURCE_KINDS.join(", ")}${advice}`,
  );
  return undefined;
}

function readSize(reader: Reader, target: Fields, path: string): string | undefined {
  const field = `${path}.resources.requests.storage`;
  const requests = reader.fields(reader.fields(target["resources"])["requests"]);
  const size = requests["storage"];
  if (size === undefined) {
    reader.require(field, "the size of the disk is missing");
    return undefined;
  }
  const text = typeof size === "number" ? String(size) : size;
  if (typeof text === "string" && (parseQuantity(text) ?? 0) >= 1) return text;
  reader.invalid(field, `${JSON.stringify(size)} is not a size, such as 10Gi`);
  return undefined;
}

function readVolumeMode(reader: Reader, target: Fields, path: string): VolumeMode {
  const { volumeMode = "Filesystem" } = target;
  if (volumeMode === "Filesystem" || volumeMode === "Block") return volumeMode;
  reader.invalid(`${path}.volumeMode`, "must be Filesystem or Block");
  return "Filesystem";
}

function readAccessModes(reader: Reader, target: Fields, path: string): readonly string[] {
  const { accessModes = [] } = target;
  const isList = Array.isArray(accessModes);
  const modes = isList ? accessModes.filter((mode) => typeof mode === "string") : [];
  if (!isList || modes.length < accessModes.length) {
    reader.invalid(`${path}.accessModes`, "must be a list of access modes");
  }
  return modes.length === 0 ? ACCESS_MODES : modes;
}

const TARGET_FIELDS = ["accessModes", "resources", "storageClassName", "volumeMode"];

function readTarget(reader: Reader, spec: Fields): Omit<FillOrder, "source"> | undefined {
  const [name, ...otherFields] = ["pvc", "storage"].filter((field) => spec[field] !== undefined);
  if (name === undefined || otherFields.length > 0) {
    reader.require("spec", "must have exactly one of storage, pvc, which describe the claim");
    return undefined;
  }
  const path = `spec.${name}`;
  const target = reader.fields(spec[name]);
  reader.refuseOthers(target, path, TARGET_FIELDS);
  const size = readSize(reader, target, path);
  const volumeMode = readVolumeMode(reader, target, path);
  const accessModes = readAccessModes(reader, target, path);
  const { storageClassName } = target;
  if (size === undefined) return undefined;
  const classField = typeof storageClassName === "string" ? { storageClassName } : {};
  return { size, volumeMode, accessModes, ...classField };
}

const IGNORED_FIELDS = ["preallocation", "priorityClassName"];

export function readDataVolume(
  value: unknown,
  namespace: string,
): { readonly order: FillOrder } | { readonly causes: readonly Cause[] } {
  const reader = new Reader();
  const spec = reader.fields(value);
  reader.refuseOthers(spec, "spec", ["source", "pvc", "storage", "contentType", ...IGNORED_FIELDS]);
  if ((spec["contentType"] ?? "kubevirt") !== "kubevirt") {
    reader.refuse("spec.contentType", "only disks are supported: kubevirt");
  }
  const source = readSource(reader, spec, namespace);
  const target = readTarget(reader, spec);
  if (reader.causes.length > 0 || source === undefined || target === undefined) {
    return { causes: reader.causes };
  }
  return { order: { source, ...target } };
}
