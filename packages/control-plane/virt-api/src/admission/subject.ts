// SPDX-License-Identifier: Apache-2.0
// The VM or VMI in an admission request.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  isJsonObject,
  type JsonObject,
  type ObjectMeta,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { isEqual } from "@patchbay/base";
import { PARTS } from "@patchbay/core/instancetype";

/** Only fields that findSubject checks may be read in the mutating webhook. */
export type Subject =
  | { readonly kind: "vm"; readonly vm: VirtualMachine }
  | { readonly kind: "vmi"; readonly vmi: VirtualMachineInstance };

function isOptional(value: unknown, is: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || is(value);
}

function isText(value: unknown): boolean {
  return typeof value === "string";
}

function isListOf(value: unknown, is: (entry: JsonObject) => boolean): boolean {
  return (
    Array.isArray(value) &&
    value.every((entry: unknown) => isJsonObject(entry) && isText(entry["name"]) && is(entry))
  );
}

/** Checks the fields that are read: name, MAC and state. */
function isIfaceList(value: unknown): boolean {
  return isListOf(
    value,
    ({ macAddress, state }) => isOptional(macAddress, isText) && isOptional(state, isText),
  );
}

/** Checks the fields that are read: name and networkName. */
function isNetworkList(value: unknown): boolean {
  return isListOf(value, ({ multus }) =>
    isOptional(multus, (of) => isJsonObject(of) && isOptional(of["networkName"], isText)),
  );
}

function isVmiSpec(value: unknown): value is VmiSpec {
  if (!isJsonObject(value) || !isJsonObject(value["domain"])) return false;
  const devices = value["domain"]["devices"];
  return (
    isOptional(value["networks"], isNetworkList) &&
    isOptional(devices, isJsonObject) &&
    isOptional(isJsonObject(devices) ? devices["interfaces"] : undefined, isIfaceList)
  );
}

/** Source: KubeVirt InstancetypeMatcher. */
const MATCHER_FIELDS = ["name", "kind", "inferFromVolume", "inferFromVolumeFailurePolicy"];

function isMatcher(value: unknown): boolean {
  if (!isJsonObject(value)) return false;
  const texts = [...MATCHER_FIELDS, "revisionName"].map((field) => value[field]);
  return texts.every((text) => text === undefined || isText(text));
}

function isVmSpec(spec: unknown): boolean {
  if (!isJsonObject(spec) || !isVmiSpec(templateSpecOf(spec))) return false;
  return PARTS.every((part) => spec[part] === undefined || isMatcher(spec[part]));
}

function templateSpecOf(spec: unknown): unknown {
  const template = isJsonObject(spec) ? spec["template"] : undefined;
  return isJsonObject(template) ? template["spec"] : undefined;
}

/**
 * Returns undefined for other kinds, and for objects that the schema will reject. The mutating webhook runs before
 * the schema validation, so it may use only the fields that are checked here.
 */
export function findSubject(kind: string, object: unknown): Subject | undefined {
  if (!isJsonObject(object) || !isJsonObject(object["metadata"])) return undefined;
  const spec = object["spec"];
  // The API server validates metadata; the fields of the specification that are read were checked above.
  if (kind === VIRTUAL_MACHINES.kind && isVmSpec(spec)) {
    return { kind: "vm", vm: object as unknown as VirtualMachine };
  }
  if (kind === VIRTUAL_MACHINE_INSTANCES.kind && isVmiSpec(spec)) {
    return { kind: "vmi", vmi: object as unknown as VirtualMachineInstance };
  }
  return undefined;
}

export function vmiSpecOf(subject: Subject): VmiSpec {
  return subject.kind === "vm" ? subject.vm.spec.template.spec : subject.vmi.spec;
}

/** Whether only metadata or status changed, which admission ignores. */
export function isUnchanged(subject: Subject, old: Subject | undefined): boolean {
  return old !== undefined && isEqual(specOf(subject), specOf(old));
}

function specOf(subject: Subject): unknown {
  return subject.kind === "vm" ? subject.vm.spec : subject.vmi.spec;
}

export function metadataOf(subject: Subject): ObjectMeta {
  return subject.kind === "vm" ? subject.vm.metadata : subject.vmi.metadata;
}
