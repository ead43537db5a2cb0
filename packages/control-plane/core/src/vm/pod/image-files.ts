// SPDX-License-Identifier: Apache-2.0
// Files from images in the launcher: either the image is a volume, or an init container with the image copies the files.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import type { Container, Pod, PodVolume } from "@patchbay/api/kubernetes";
import { inMi, NO_PARTS, type PartsRequest, type PodParts } from "./parts.ts";
import { listKernelFiles } from "../spec/machine.ts";

/** Volume with the copy program, because images need not contain one. */
const TOOL_VOLUME = "copy-files";
const TOOL_CONTAINER = "copy-files";
/** The copy program, which is linked statically and part of the launcher's image. */
const TOOL_PROGRAM = "/usr/bin/copy-files";
/** Mount points in the init containers, at paths that no image uses. */
const TOOL_DIR = "/patchbay/bin";
const COPY_DIR = "/patchbay/files";
/** Size limit of the volume for the copy program, which is smaller than 1 MiB. */
const TOOL_MIB = 16;
/** Memory limit of the copy program. It needs less than 1 MiB, and the page cache can be reclaimed. */
const COPY_MEMORY_MIB = 128;

/** Source: Kubernetes core/v1 PullPolicy. */
const PULL_POLICIES = ["Always", "IfNotPresent", "Never"] as const;
type PullPolicy = (typeof PULL_POLICIES)[number];

/** Default pull policy. Images that were added to a standalone machine are in no registry. */
const DEFAULT_POLICY: PullPolicy = "IfNotPresent";

/** Parses a pull policy. Unknown names become the default, but a VM with one is not started. */
export function parsePullPolicy(name: string | undefined): PullPolicy {
  return PULL_POLICIES.find((policy) => policy === name) ?? DEFAULT_POLICY;
}

export interface ImageFiles {
  readonly name: string;
  readonly image: string;
  readonly pullPolicy: PullPolicy;
  readonly pullSecret: string | undefined;
  /** Mount point in the launcher of the image's root, or of a directory with copies at the same paths. */
  readonly mountPath: string;
  /** Arguments of the copy program: the option, and after the target directory the files. `mib` limits their size. */
  readonly copy: {
    readonly option: "--parents" | "--disk";
    readonly files: readonly string[];
    readonly mib: number;
  };
}

function copySettings(request: PartsRequest): Pick<Container, "resources" | "securityContext"> {
  const resources = { memory: inMi(COPY_MEMORY_MIB), "ephemeral-storage": "16Mi" };
  return {
    resources: { requests: resources, limits: resources },
    securityContext: request.securityContext,
  };
}

function toolContainer(request: PartsRequest): Container {
  return {
    name: TOOL_CONTAINER,
    image: request.image,
    imagePullPolicy: "IfNotPresent",
    command: [TOOL_PROGRAM, "--self", TOOL_DIR],
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...copySettings(request),
    volumeMounts: [{ name: TOOL_VOLUME, mountPath: TOOL_DIR }],
  };
}

function copyContainer(files: ImageFiles, request: PartsRequest): Container {
  const { name, image, pullPolicy, copy } = files;
  return {
    name,
    image,
    imagePullPolicy: pullPolicy,
    command: [`${TOOL_DIR}/copy-files`, copy.option, COPY_DIR, ...copy.files],
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...copySettings(request),
    volumeMounts: [
      { name: TOOL_VOLUME, mountPath: TOOL_DIR, readOnly: true },
      { name, mountPath: COPY_DIR },
    ],
  };
}

function imageVolume({ name, image, pullPolicy }: ImageFiles): PodVolume {
  return { name, image: { reference: image, pullPolicy } };
}

/** Builds the volumes, or the init containers that copy. Paths in the launcher are the same in both cases. */
export function buildImageParts(all: readonly ImageFiles[], request: PartsRequest): PodParts {
  if (all.length === 0) return NO_PARTS;
  const secrets = all.flatMap(({ pullSecret = "" }) => (pullSecret === "" ? [] : [pullSecret]));
  const mounts = all.map(({ name, mountPath }) => ({ name, mountPath, readOnly: true }));
  const shared = { ...NO_PARTS, mounts, secrets };
  if (request.supportsImageVolumes) return { ...shared, volumes: all.map(imageVolume) };
  const copies = all.map(({ name, copy }) => ({ name, emptyDir: { sizeLimit: inMi(copy.mib) } }));
  return {
    ...shared,
    volumes: [...copies, { name: TOOL_VOLUME, emptyDir: { sizeLimit: inMi(TOOL_MIB) } }],
    initContainers: [toolContainer(request), ...all.map((files) => copyContainer(files, request))],
    diskMiB: all.reduce((sum, { copy }) => sum + copy.mib, TOOL_MIB),
  };
}

export function hasImageVolume({ spec }: Pod): boolean {
  return spec.volumes?.some(({ image }) => image !== undefined) === true;
}

function isOfImage({ name }: PodVolume): boolean {
  return name === KERNEL_FILES || name.startsWith(DISK_FILES);
}

export const KERNEL_FILES = "kernel-boot";
/** Prefix of the volume names of containerDisks. The volume's index follows. */
const DISK_FILES = "image-";

export function diskFilesName(volumeIndex: number): string {
  return `${DISK_FILES}${String(volumeIndex)}`;
}

export function parseVolumeIndex(name: string): number | undefined {
  return name.startsWith(DISK_FILES) ? Number(name.slice(DISK_FILES.length)) : undefined;
}

/** Error message of runtimes without image volumes. Source: containerd 1.6 to 2.0, CRI plugin, WithMounts. */
const NAMELESS_MOUNT = 'failed to mkdir ""';

/** Whether the node's runtime does not support image volumes. */
function isImageUnknown(pod: Pod): boolean {
  const messages = (pod.status?.containerStatuses ?? []).map(({ state }) => state.waiting?.message);
  return hasImageVolume(pod) && messages.some((message = "") => message.includes(NAMELESS_MOUNT));
}

/** Whether the API server dropped an image. Without support for image volumes it stores an empty volume. */
function isImageDropped({ spec }: Pod): boolean {
  const copied = new Set(spec.initContainers?.map(({ name }) => name));
  return (spec.volumes ?? []).some(
    (volume) => isOfImage(volume) && volume.image === undefined && !copied.has(volume.name),
  );
}

/** Whether the launcher lacks an image's files, because the API server or the runtime does not support image volumes. */
export function hasMissingImage(pod: Pod): boolean {
  return isImageDropped(pod) || isImageUnknown(pod);
}

/** Maximum disk space of kernel and initrd. Those of distributions need 30 to 150 MiB. */
const KERNEL_MIB = 512;

export function listKernelImages(vmi: VirtualMachineInstance): readonly ImageFiles[] {
  const boot = vmi.spec.domain.firmware?.kernelBoot?.container;
  if (boot === undefined) return [];
  const { kernel, initrd } = listKernelFiles(vmi.spec.domain);
  return [
    {
      name: KERNEL_FILES,
      image: boot.image,
      pullPolicy: parsePullPolicy(boot.imagePullPolicy),
      pullSecret: boot.imagePullSecret,
      mountPath: names.KERNEL_BOOT_DIR,
      copy: { option: "--parents", files: [kernel, ...[initrd ?? []].flat()], mib: KERNEL_MIB },
    },
  ];
}
