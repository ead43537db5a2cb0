// SPDX-License-Identifier: Apache-2.0
// Older field names of KubeVirt. Objects are stored as written, so code that reads disks, volumes or the machine type
// resolves the aliases first.
import type { VmiSpec } from "./vmi-spec.ts";
import { isJsonObject, type JsonObject } from "../values/json.ts";

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function without(value: JsonObject, key: string): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([other]) => other !== key));
}

/** Maps the entries of a list. Leaves other types unchanged, because the schema rejects them. */
function each<T>(value: T, read: (entry: JsonObject) => JsonObject): T {
  if (!Array.isArray(value)) return value;
  // Renames keys only, so the type of each entry stays the same.
  return value.map((entry: unknown) => (isJsonObject(entry) ? read(entry) : entry)) as T;
}

/** `volumeName` held the volume's name. Source: KubeVirt v0.8 api/v1 schema.go, type Disk. */
function readDisk(disk: JsonObject): JsonObject {
  if (!("volumeName" in disk)) return disk;
  const { volumeName } = disk;
  const { name } = disk;
  return { ...without(disk, "volumeName"), name: isText(volumeName) ? volumeName : name };
}

/** `registryDisk` is now containerDisk; a volume with both is rejected. Source: KubeVirt v0.8 api/v1 schema.go, type RegistryDiskSource. */
function readVolume(volume: JsonObject): JsonObject {
  if (!("registryDisk" in volume) || "containerDisk" in volume) return volume;
  const { registryDisk } = volume;
  return { ...without(volume, "registryDisk"), containerDisk: registryDisk };
}

/** An empty type meant the default. Source: KubeVirt v0.8 api/v1 defaults.go. */
function readMachine({ domain: { machine } }: VmiSpec): Pick<VmiSpec["domain"], "machine"> {
  return machine?.type === "" ? { machine: {} } : {};
}

function readDisks({ domain: { devices } }: VmiSpec): Pick<VmiSpec["domain"], "devices"> {
  if (devices?.disks === undefined) return {};
  return { devices: { ...devices, disks: each(devices.disks, readDisk) } };
}

function readVolumes({ volumes }: VmiSpec): Pick<VmiSpec, "volumes"> {
  return volumes === undefined ? {} : { volumes: each(volumes, readVolume) };
}

/**
 * Resolves the aliases of a specification: `registryDisk` to `containerDisk`, `disks[].volumeName` to the disk's
 * name, machine type `""` to unset. Keeps the order of lists, so that field paths remain valid.
 */
export function inCurrentWords(spec: VmiSpec): VmiSpec {
  const domain = { ...spec.domain, ...readMachine(spec), ...readDisks(spec) };
  return { ...spec, domain, ...readVolumes(spec) };
}
