// SPDX-License-Identifier: Apache-2.0
import { names, type VirtualMachineInstance } from "@patchbay/api";
import type { Container } from "@patchbay/api/kubernetes";
import { buildDiskFile } from "../spec/disk-files.ts";
import { listDisks, isDirect, type GuestDisk } from "../spec/disks.ts";
import type { ImageFiles } from "./image-files.ts";
import { printMi, joinParts, NO_PARTS, type PartsRequest, type PodParts } from "./parts.ts";
import {
  buildClaimPart,
  buildCloudInitPart,
  buildContainerDiskPart,
  QCOW2_OVERHEAD_MIB,
  buildHostDiskPart,
  buildFilesPart,
  escapeExpansion,
  type DiskFacts,
  type DiskPart,
} from "./disk-parts.ts";

const MIB_BYTES = 2 ** 20;

function buildEmptyDiskPart(disk: GuestDisk, bytes: number): DiskPart {
  return {
    prepareArguments: [
      "empty",
      disk.name,
      buildDiskFile(disk, "Filesystem").path,
      String(Math.floor(bytes)),
    ],
    diskMiB: Math.ceil(bytes / MIB_BYTES) + QCOW2_OVERHEAD_MIB,
  };
}

function buildDiskPart(vmi: VirtualMachineInstance, disk: GuestDisk, facts: DiskFacts): DiskPart {
  const { source } = disk;
  if ("claimName" in source) return buildClaimPart(disk, source, facts);
  switch (source.kind) {
    case "containerDisk":
      return buildContainerDiskPart(disk, source);
    case "emptyDisk":
      return buildEmptyDiskPart(disk, source.bytes);
    case "hostDisk":
      return buildHostDiskPart(disk, source);
    case "cloudInitNoCloud":
    case "cloudInitConfigDrive":
      return buildCloudInitPart(vmi, disk, source);
    case "configMap":
    case "secret":
    case "downwardAPI":
      return buildFilesPart(disk, source);
  }
}

/** Builds the pod parts of all disks. The argument `direct` makes `prepare-disks` test whether the disk's storage supports O_DIRECT. */
export function planDisks(vmi: VirtualMachineInstance, facts: DiskFacts): readonly DiskPart[] {
  return listDisks(vmi.spec).map((disk) => {
    const part = buildDiskPart(vmi, disk, facts);
    return isDirect(disk)
      ? { ...part, prepareArguments: ["direct", ...part.prepareArguments] }
      : part;
  });
}

export function listDiskImages(parts: readonly DiskPart[]): readonly ImageFiles[] {
  return parts.flatMap(({ files }) => files ?? []);
}

/** Joins the pod parts of the disks. The init container `prepare-disks` also gets `imageMounts`, the launcher's mounts of images. */
export function buildDiskParts(
  parts: readonly DiskPart[],
  imageMounts: PodParts["mounts"],
  request: PartsRequest,
): PodParts {
  if (parts.length === 0) return NO_PARTS;
  const diskMiB = parts.reduce((sum, part) => sum + part.diskMiB, 0);
  const diskParts = joinParts(
    parts.map(({ volumes = [], mounts = [], devices = [] }) => ({
      ...NO_PARTS,
      volumes,
      mounts,
      devices,
    })),
  );
  const volumeMounts = [...imageMounts, ...diskParts.mounts];
  const sharedMounts = { volumeMounts, volumeDevices: diskParts.devices };
  return {
    ...diskParts,
    volumes: [
      { name: names.DISKS_VOLUME, emptyDir: { sizeLimit: printMi(diskMiB + QCOW2_OVERHEAD_MIB) } },
      ...diskParts.volumes,
    ],
    mounts: [{ name: names.DISKS_VOLUME, mountPath: names.DISKS_DIR }, ...diskParts.mounts],
    initContainers: [buildPrepareContainer(parts, sharedMounts, request)],
    diskMiB: diskMiB + QCOW2_OVERHEAD_MIB,
  };
}

export const PREPARE_CONTAINER = "prepare-disks";
const PREPARE_PROGRAM = "/usr/bin/prepare-disks";
/** Requests and limits of `prepare-disks`, which runs `qemu-img` and `xorriso`. The limits also bound what a malicious image can use. */
const PREPARE_REQUESTS = { cpu: "10m", memory: "64Mi", "ephemeral-storage": "16Mi" };
const PREPARE_LIMITS = { cpu: "1", memory: "512Mi", "ephemeral-storage": "16Mi" };

function buildArguments(parts: readonly DiskPart[]): readonly string[] {
  return parts
    .flatMap(({ prepareArguments }, index) =>
      index === 0 ? prepareArguments : ["--", ...prepareArguments],
    )
    .map(escapeExpansion);
}

/** Builds the init container that prepares the disks. `parts` must not be empty. `sharedMounts` are mounts of the launcher. */
function buildPrepareContainer(
  parts: readonly DiskPart[],
  sharedMounts: Pick<Container, "volumeMounts" | "volumeDevices">,
  request: PartsRequest,
): Container {
  const env = parts.flatMap((part) => part.env ?? []);
  const copySources = parts.flatMap((part) => part.copySources ?? []);
  const devices = sharedMounts.volumeDevices ?? [];
  return {
    name: PREPARE_CONTAINER,
    image: request.image,
    imagePullPolicy: "IfNotPresent",
    command: [PREPARE_PROGRAM],
    args: buildArguments(parts),
    ...(env.length === 0
      ? {}
      : { env: env.map(({ name, value = "" }) => ({ name, value: escapeExpansion(value) })) }),
    terminationMessagePolicy: "FallbackToLogsOnError",
    resources: { requests: PREPARE_REQUESTS, limits: PREPARE_LIMITS },
    securityContext: request.securityContext,
    volumeMounts: [
      { name: "tmp", mountPath: "/tmp" },
      { name: names.DISKS_VOLUME, mountPath: names.DISKS_DIR },
      ...(sharedMounts.volumeMounts ?? []),
      ...copySources,
    ],
    ...(devices.length === 0 ? {} : { volumeDevices: devices }),
  };
}
