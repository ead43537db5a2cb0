// SPDX-License-Identifier: Apache-2.0
// Older field names of KubeVirt, which stored objects may contain. Code that reads disks or volumes must first call
// withCurrentFieldNames, which replaces the older names.
import type { VmiSpec } from "./vmi-spec.ts";
import { isJsonObject, type JsonObject } from "../values/json.ts";

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function omit(value: JsonObject, key: string): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
}

/** Maps the entries of a list. Returns other values unchanged; validation against the schema rejects them. */
function mapEntries<T>(value: T, resolve: (entry: JsonObject) => JsonObject): T {
  if (!Array.isArray(value)) return value;
  // The cast is safe, because `resolve` only renames fields of the entries.
  return value.map((entry: unknown) => (isJsonObject(entry) ? resolve(entry) : entry)) as T;
}

/** Renames `volumeName` to `name`. Source: KubeVirt v0.8 api/v1 schema.go, type Disk. */
function resolveDisk(disk: JsonObject): JsonObject {
  if (!("volumeName" in disk)) return disk;
  const { volumeName } = disk;
  const { name } = disk;
  return { ...omit(disk, "volumeName"), name: isText(volumeName) ? volumeName : name };
}

/** Renames `registryDisk` to `containerDisk`. Source: KubeVirt v0.8 api/v1 schema.go, type RegistryDiskSource. */
function resolveVolume(volume: JsonObject): JsonObject {
  if (!("registryDisk" in volume) || "containerDisk" in volume) return volume;
  const { registryDisk } = volume;
  return { ...omit(volume, "registryDisk"), containerDisk: registryDisk };
}

/** Removes an empty machine type, so that the default applies. Source: KubeVirt v0.8 api/v1 defaults.go. */
function resolveMachine({ domain: { machine } }: VmiSpec): Pick<VmiSpec["domain"], "machine"> {
  return machine?.type === "" ? { machine: {} } : {};
}

function resolveDisks({ domain: { devices } }: VmiSpec): Pick<VmiSpec["domain"], "devices"> {
  if (devices?.disks === undefined) return {};
  return { devices: { ...devices, disks: mapEntries(devices.disks, resolveDisk) } };
}

function resolveVolumes({ volumes }: VmiSpec): Pick<VmiSpec, "volumes"> {
  return volumes === undefined ? {} : { volumes: mapEntries(volumes, resolveVolume) };
}

/** Replaces older field names. Lists retain their order, so that field paths remain valid. */
export function withCurrentFieldNames(spec: VmiSpec): VmiSpec {
  const domain = { ...spec.domain, ...resolveMachine(spec), ...resolveDisks(spec) };
  return { ...spec, domain, ...resolveVolumes(spec) };
}
