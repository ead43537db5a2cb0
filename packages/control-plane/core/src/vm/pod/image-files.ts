// SPDX-License-Identifier: Apache-2.0
// Files from images in the launcher. The launcher mounts the image as a volume, or an init container copies its files.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import type { Container, Pod, PodVolume } from "@patchbay/api/kubernetes";
import { printMi, NO_PARTS, type PartsRequest, type PodParts } from "./parts.ts";
import { listKernelFiles } from "../spec/machine.ts";

/** Volume that provides the copy program to init containers, whose images may contain no such program. */
const TOOL_VOLUME = "copy-files";
const TOOL_CONTAINER = "copy-files";
/** Copy program in the launcher's image. The program is statically linked, so that it runs in any image. */
const TOOL_PROGRAM = "/usr/bin/copy-files";
const TOOL_DIR = "/patchbay/bin";
const COPY_DIR = "/patchbay/files";
/** Size limit of the volume for the copy program. The program is smaller than 1 MiB. */
const TOOL_MIB = 16;
/** Memory limit of the copy program in MiB. The program needs less than 1 MiB, but its page cache also counts. */
const COPY_MEMORY_MIB = 128;

const PULL_POLICIES = ["Always", "IfNotPresent", "Never"] as const;
type PullPolicy = (typeof PULL_POLICIES)[number];

/** Default pull policy. `Always` would fail for images that a user imported into a standalone machine, because no registry has them. */
const DEFAULT_POLICY: PullPolicy = "IfNotPresent";

/** Parses a pull policy. Returns the default for an unknown name, which validation rejects. */
export function parsePullPolicy(name: string | undefined): PullPolicy {
  return PULL_POLICIES.find((policy) => policy === name) ?? DEFAULT_POLICY;
}

export interface ImageFiles {
  readonly name: string;
  readonly image: string;
  readonly pullPolicy: PullPolicy;
  readonly pullSecret: string | undefined;
  /** Mount point in the launcher. It contains the image's root, or copied files at the same paths as in the image. */
  readonly mountPath: string;
  /** Arguments of the copy program. `mib` limits the size of the files. */
  readonly copy: {
    readonly option: "--parents" | "--disk";
    readonly files: readonly string[];
    readonly mib: number;
  };
}

function buildCopySettings(
  request: PartsRequest,
): Pick<Container, "resources" | "securityContext"> {
  const resources = { memory: printMi(COPY_MEMORY_MIB), "ephemeral-storage": "16Mi" };
  return {
    resources: { requests: resources, limits: resources },
    securityContext: request.securityContext,
  };
}

function buildToolContainer(request: PartsRequest): Container {
  return {
    name: TOOL_CONTAINER,
    image: request.image,
    imagePullPolicy: "IfNotPresent",
    command: [TOOL_PROGRAM, "--self", TOOL_DIR],
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...buildCopySettings(request),
    volumeMounts: [{ name: TOOL_VOLUME, mountPath: TOOL_DIR }],
  };
}

function buildCopyContainer(files: ImageFiles, request: PartsRequest): Container {
  const { name, image, pullPolicy, copy } = files;
  return {
    name,
    image,
    imagePullPolicy: pullPolicy,
    command: [`${TOOL_DIR}/copy-files`, copy.option, COPY_DIR, ...copy.files],
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...buildCopySettings(request),
    volumeMounts: [
      { name: TOOL_VOLUME, mountPath: TOOL_DIR, readOnly: true },
      { name, mountPath: COPY_DIR },
    ],
  };
}

function buildImageVolume({ name, image, pullPolicy }: ImageFiles): PodVolume {
  return { name, image: { reference: image, pullPolicy } };
}

/** Builds image volumes if they are supported, otherwise init containers that copy the files. The launcher's paths are the same. */
export function buildImageParts(
  imageFiles: readonly ImageFiles[],
  request: PartsRequest,
): PodParts {
  if (imageFiles.length === 0) return NO_PARTS;
  const secrets = imageFiles.flatMap(({ pullSecret = "" }) =>
    pullSecret === "" ? [] : [pullSecret],
  );
  const mounts = imageFiles.map(({ name, mountPath }) => ({ name, mountPath, readOnly: true }));
  const commonParts = { ...NO_PARTS, mounts, secrets };
  if (request.supportsImageVolumes)
    return { ...commonParts, volumes: imageFiles.map(buildImageVolume) };
  const copyVolumes = imageFiles.map(({ name, copy }) => ({
    name,
    emptyDir: { sizeLimit: printMi(copy.mib) },
  }));
  return {
    ...commonParts,
    volumes: [...copyVolumes, { name: TOOL_VOLUME, emptyDir: { sizeLimit: printMi(TOOL_MIB) } }],
    initContainers: [
      buildToolContainer(request),
      ...imageFiles.map((files) => buildCopyContainer(files, request)),
    ],
    diskMiB: imageFiles.reduce((sum, { copy }) => sum + copy.mib, TOOL_MIB),
  };
}

export function hasImageVolume({ spec }: Pod): boolean {
  return spec.volumes?.some(({ image }) => image !== undefined) === true;
}

function isOfImage({ name }: PodVolume): boolean {
  return name === KERNEL_VOLUME_NAME || name.startsWith(DISK_FILES);
}

export const KERNEL_VOLUME_NAME = "kernel-boot";
const DISK_FILES = "image-";

export function buildDiskFilesName(volumeIndex: number): string {
  return `${DISK_FILES}${String(volumeIndex)}`;
}

export function parseVolumeIndex(name: string): number | undefined {
  return name.startsWith(DISK_FILES) ? Number(name.slice(DISK_FILES.length)) : undefined;
}

/** Error message of a runtime that does not support image volumes. Source: containerd 1.6 to 2.0, CRI plugin, WithMounts. */
const NAMELESS_MOUNT_ERROR = 'failed to mkdir ""';

function isImageUnknown(pod: Pod): boolean {
  const messages = (pod.status?.containerStatuses ?? []).map(({ state }) => state.waiting?.message);
  return (
    hasImageVolume(pod) && messages.some((message = "") => message.includes(NAMELESS_MOUNT_ERROR))
  );
}

/** Returns whether the API server dropped an image. An API server without support for image volumes stores an empty volume instead. */
function isImageDropped({ spec }: Pod): boolean {
  const copiedNames = new Set(spec.initContainers?.map(({ name }) => name));
  return (spec.volumes ?? []).some(
    (volume) => isOfImage(volume) && volume.image === undefined && !copiedNames.has(volume.name),
  );
}

/** Checks whether the launcher lacks the files of an image, because the API server or the runtime does not support image volumes. */
export function hasMissingImage(pod: Pod): boolean {
  return isImageDropped(pod) || isImageUnknown(pod);
}

/** Maximum disk space of a kernel and its initrd. Kernels and initrds of distributions need 30 to 150 MiB. */
const KERNEL_MIB = 512;

export function listKernelImages(vmi: VirtualMachineInstance): readonly ImageFiles[] {
  const boot = vmi.spec.domain.firmware?.kernelBoot?.container;
  if (boot === undefined) return [];
  const { kernel, initrd } = listKernelFiles(vmi.spec.domain);
  return [
    {
      name: KERNEL_VOLUME_NAME,
      image: boot.image,
      pullPolicy: parsePullPolicy(boot.imagePullPolicy),
      pullSecret: boot.imagePullSecret,
      mountPath: names.KERNEL_BOOT_DIR,
      copy: { option: "--parents", files: [kernel, ...[initrd ?? []].flat()], mib: KERNEL_MIB },
    },
  ];
}
