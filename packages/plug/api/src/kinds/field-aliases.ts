// SPDX-License-Identifier: Apache-2.0
// What a specification says in the words of kubevirt.io/v1. Objects are stored as they were written, in older words too;
// whoever reads disks, volumes or the machine's type reads them through here, and knows the newest words only.
import type { VmiSpec } from "./vmi-spec.ts";
import { isJsonObject, type JsonObject } from "../values/json.ts";

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function without(value: JsonObject, key: string): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([other]) => other !== key));
}

/** The list with each entry read; what is no list, and entries that are no objects, the schema refuses. */
function each<T>(value: T, read: (entry: JsonObject) => JsonObject): T {
  if (!Array.isArray(value)) return value;
  // Older words go and newer ones come; no entry takes another type.
  return value.map((entry: unknown) => (isJsonObject(entry) ? read(entry) : entry)) as T;
}

/** A disk named its volume beside itself. Source: KubeVirt v0.8 api/v1 schema.go, type Disk. */
function readDisk(disk: JsonObject): JsonObject {
  if (!("volumeName" in disk)) return disk;
  const { volumeName } = disk;
  const { name } = disk;
  return { ...without(disk, "volumeName"), name: isText(volumeName) ? volumeName : name };
}

/** A disk in an image was a registry disk; a volume with both is refused. Source: KubeVirt v0.8 api/v1 schema.go, type RegistryDiskSource. */
function readVolume(volume: JsonObject): JsonObject {
  if (!("registryDisk" in volume) || "containerDisk" in volume) return volume;
  const { registryDisk } = volume;
  return { ...without(volume, "registryDisk"), containerDisk: registryDisk };
}

/** An empty type asked for the default. Source: KubeVirt v0.8 api/v1 defaults.go. */
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
 * The specification in current words: `registryDisk` as `containerDisk`, `disks[].volumeName` as the disk's name, machine
 * type `""` as none. All else, and every place in a list, is as it was, so that paths of fields stay true. A disk is known
 * by the name of its volume, also where it had another.
 */
export function inCurrentWords(spec: VmiSpec): VmiSpec {
  const domain = { ...spec.domain, ...readMachine(spec), ...readDisks(spec) };
  return { ...spec, domain, ...readVolumes(spec) };
}
