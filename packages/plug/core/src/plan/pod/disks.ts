// SPDX-License-Identifier: Apache-2.0
// The guest's disks in the launcher pod: what is mounted, and how what is not there yet is made.
import { names, type VirtualMachineInstance, type Container } from "@patchbay/api";
import { diskFileOf } from "../../spec/disk-files.ts";
import { disksOf, isDirect, type GuestDisk } from "../../spec/disks.ts";
import type { ImageFiles } from "./image-files.ts";
import { inMi, joinParts, NO_PARTS, type PartsRequest, type PodParts } from "./parts.ts";
import {
  claimDiskPart,
  cloudInitPart,
  containerDiskPart,
  FORMAT_MIB,
  hostDiskPart,
  filesDiskPart,
  literally,
  type DiskFacts,
  type DiskPart,
} from "./disk-parts.ts";

const MIB = 2 ** 20;

function emptyDiskPart(disk: GuestDisk, bytes: number): DiskPart {
  return {
    group: ["empty", disk.name, diskFileOf(disk, "Filesystem").path, String(Math.floor(bytes))],
    diskMiB: Math.ceil(bytes / MIB) + FORMAT_MIB,
  };
}

function partOf(vmi: VirtualMachineInstance, disk: GuestDisk, facts: DiskFacts): DiskPart {
  const { source } = disk;
  if ("claimName" in source) return claimDiskPart(disk, source, facts);
  switch (source.kind) {
    case "containerDisk":
      return containerDiskPart(disk, source);
    case "emptyDisk":
      return emptyDiskPart(disk, source.bytes);
    case "hostDisk":
      return hostDiskPart(disk, source);
    case "cloudInitNoCloud":
    case "cloudInitConfigDrive":
      return cloudInitPart(vmi, disk, source);
    case "configMap":
    case "secret":
    case "downwardAPI":
      return filesDiskPart(disk, source);
  }
}

/** The guest's disks, each with what it needs of the pod. What QEMU is to open past the host's memory is tried before. */
export function planDisks(vmi: VirtualMachineInstance, facts: DiskFacts): readonly DiskPart[] {
  return disksOf(vmi.spec).map((disk) => {
    const part = partOf(vmi, disk, facts);
    return isDirect(disk) ? { ...part, group: ["direct", ...part.group] } : part;
  });
}

/** Images whose files are disks. */
export function diskImagesOf(parts: readonly DiskPart[]): readonly ImageFiles[] {
  return parts.flatMap(({ files }) => files ?? []);
}

/**
 * What the guest's disks need of the pod, beside the files of images; `imageMounts` is where those are. What makes disks
 * is the last init container.
 */
export function diskPartsOf(
  parts: readonly DiskPart[],
  imageMounts: PodParts["mounts"],
  request: PartsRequest,
): PodParts {
  if (parts.length === 0) return NO_PARTS;
  const diskMiB = parts.reduce((sum, part) => sum + part.diskMiB, 0);
  const own = joinParts(
    parts.map(({ volumes = [], mounts = [], devices = [] }) => ({
      ...NO_PARTS,
      volumes,
      mounts,
      devices,
    })),
  );
  const volumeMounts = [...imageMounts, ...own.mounts];
  const shared = { volumeMounts, volumeDevices: own.devices };
  return {
    ...own,
    volumes: [
      { name: names.DISKS_VOLUME, emptyDir: { sizeLimit: inMi(diskMiB + FORMAT_MIB) } },
      ...own.volumes,
    ],
    mounts: [{ name: names.DISKS_VOLUME, mountPath: names.DISKS_DIR }, ...own.mounts],
    initContainers: [prepareContainer(parts, shared, request)],
    diskMiB: diskMiB + FORMAT_MIB,
  };
}

/** Its name in a launcher pod. */
export const PREPARE_CONTAINER = "prepare-disks";
const PROGRAM = "/usr/bin/prepare-disks";
/**
 * `qemu-img` and `xorriso` take some tens of MiB; more than that only an image that is made to take it, which is ended by
 * its limit. One processor, so that a node's others go on.
 */
const REQUESTS = { cpu: "10m", memory: "64Mi", "ephemeral-storage": "16Mi" };
const LIMITS = { cpu: "1", memory: "512Mi", "ephemeral-storage": "16Mi" };

function argumentsOf(parts: readonly DiskPart[]): readonly string[] {
  return parts
    .flatMap(({ group }, index) => (index === 0 ? group : ["--", ...group]))
    .map(literally);
}

/** Of all disks of a VMI; `parts` are not empty. `shared` is what the launcher has too. */
function prepareContainer(
  parts: readonly DiskPart[],
  shared: Pick<Container, "volumeMounts" | "volumeDevices">,
  request: PartsRequest,
): Container {
  const env = parts.flatMap((part) => part.env ?? []);
  const madeFrom = parts.flatMap((part) => part.madeFrom ?? []);
  const devices = shared.volumeDevices ?? [];
  return {
    name: PREPARE_CONTAINER,
    image: request.image,
    imagePullPolicy: "IfNotPresent",
    command: [PROGRAM],
    args: argumentsOf(parts),
    ...(env.length === 0
      ? {}
      : { env: env.map(({ name, value = "" }) => ({ name, value: literally(value) })) }),
    terminationMessagePolicy: "FallbackToLogsOnError",
    resources: { requests: REQUESTS, limits: LIMITS },
    securityContext: request.securityContext,
    volumeMounts: [
      { name: "tmp", mountPath: "/tmp" },
      { name: names.DISKS_VOLUME, mountPath: names.DISKS_DIR },
      ...(shared.volumeMounts ?? []),
      ...madeFrom,
    ],
    ...(devices.length === 0 ? {} : { volumeDevices: devices }),
  };
}
