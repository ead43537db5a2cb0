// SPDX-License-Identifier: Apache-2.0
// How files of an image come into the launcher: the image is a volume, or a container of it copies them before the start.
import {
  names,
  type Container,
  type Pod,
  type PodVolume,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { inMi, NO_PARTS, type PartsRequest, type PodParts } from "./parts.ts";
import { kernelFilesOf } from "../../spec/kernel.ts";

/** Volume with the program that copies, since an image need not hold any. */
const TOOL_VOLUME = "copy-files";
/** Puts the program into its volume. */
const TOOL_CONTAINER = "copy-files";
/** The program in the launcher's image: one file that needs no other. */
const TOOL = "/usr/bin/copy-files";
/** Where volumes are while files are copied: places that no image has files at. */
const TOOL_DIR = "/patchbay/bin";
const COPY_DIR = "/patchbay/files";
/** Most that the program takes; it has less than 1 MiB. */
const TOOL_MIB = 16;
/** Of a container that copies: the program takes less than 1 MiB, pages of files go when memory is short. */
const COPY_MEMORY_MIB = 128;

/** Source: Kubernetes core/v1 PullPolicy. */
const PULL_POLICIES = ["Always", "IfNotPresent", "Never"] as const;
type PullPolicy = (typeof PULL_POLICIES)[number];

/** Where nothing is said an image that is there is taken: one that was added to a machine is in no registry. */
const DEFAULT_POLICY: PullPolicy = "IfNotPresent";

/** The policy of that name, else the default; another word keeps the VM from being started. */
export function pullPolicyOf(name: string | undefined): PullPolicy {
  return PULL_POLICIES.find((policy) => policy === name) ?? DEFAULT_POLICY;
}

/** Files of one image that the launcher needs. */
export interface ImageFiles {
  /** Of the volume, and of the container that copies. */
  readonly name: string;
  readonly image: string;
  readonly pullPolicy: PullPolicy;
  /** Empty: none. */
  readonly pullSecret: string | undefined;
  /** Where the image's root is in the launcher, or a directory with the files at the places that they have in the image. */
  readonly mountPath: string;
  /** What the program that copies is told, with the directory to copy into in the middle. */
  readonly copy: {
    readonly option: "--parents" | "--disk";
    readonly files: readonly string[];
    /** Most that the files take. */
    readonly mib: number;
  };
}

function copying(request: PartsRequest): Pick<Container, "resources" | "securityContext"> {
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
    command: [TOOL, "--self", TOOL_DIR],
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...copying(request),
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
    ...copying(request),
    volumeMounts: [
      { name: TOOL_VOLUME, mountPath: TOOL_DIR, readOnly: true },
      { name, mountPath: COPY_DIR },
    ],
  };
}

function imageVolume({ name, image, pullPolicy }: ImageFiles): PodVolume {
  return { name, image: { reference: image, pullPolicy } };
}

/** What a launcher pod needs for files of images; their places in the launcher are the same either way. */
export function imagePartsOf(all: readonly ImageFiles[], request: PartsRequest): PodParts {
  if (all.length === 0) return NO_PARTS;
  const secrets = all.flatMap(({ pullSecret = "" }) => (pullSecret === "" ? [] : [pullSecret]));
  const mounts = all.map(({ name, mountPath }) => ({ name, mountPath, readOnly: true }));
  const shared = { ...NO_PARTS, mounts, secrets };
  if (request.keepsImageVolumes) return { ...shared, volumes: all.map(imageVolume) };
  const copies = all.map(({ name, copy }) => ({ name, emptyDir: { sizeLimit: inMi(copy.mib) } }));
  return {
    ...shared,
    volumes: [...copies, { name: TOOL_VOLUME, emptyDir: { sizeLimit: inMi(TOOL_MIB) } }],
    initContainers: [toolContainer(request), ...all.map((files) => copyContainer(files, request))],
    diskMiB: all.reduce((sum, { copy }) => sum + copy.mib, TOOL_MIB),
  };
}

/** Whether files come by a volume that is an image. */
export function hasImageVolume({ spec }: Pod): boolean {
  return spec.volumes?.some(({ image }) => image !== undefined) === true;
}

/** Source: `ImageFiles.name`, of kernels and of disks. */
function isOfImage({ name }: PodVolume): boolean {
  return name === KERNEL_FILES || name.startsWith(DISK_FILES);
}

/** Name of the files of the guest's kernel. */
export const KERNEL_FILES = "kernel-boot";
/** Before the number of the VMI's volume: name of the files of a containerDisk. */
const DISK_FILES = "image-";

/** Name of the files of the containerDisk that is the VMI's volume of that number. */
export function diskFilesName(volumeIndex: number): string {
  return `${DISK_FILES}${String(volumeIndex)}`;
}

/** The number of the VMI's volume whose files have that name; undefined for other names. */
export function volumeIndexOf(name: string): number | undefined {
  return name.startsWith(DISK_FILES) ? Number(name.slice(DISK_FILES.length)) : undefined;
}

/**
 * What a runtime says that does not know mounts of images, and takes one for a directory without a name.
 * Source: containerd 1.6 to 2.0, CRI plugin, WithMounts; run with 1.6.20.
 */
const NAMELESS_MOUNT = 'failed to mkdir ""';

/** Whether the node's runtime makes no container that has an image for a volume. */
function isImageUnknown(pod: Pod): boolean {
  const waits = (pod.status?.containerStatuses ?? []).map(({ state }) => state.waiting?.message);
  return hasImageVolume(pod) && waits.some((message = "") => message.includes(NAMELESS_MOUNT));
}

/** Whether the API server dropped an image of the pod: a volume of a kind that it does not know is empty, and nobody fills it. */
function isImageDropped({ spec }: Pod): boolean {
  const copied = new Set(spec.initContainers?.map(({ name }) => name));
  return (spec.volumes ?? []).some(
    (volume) => isOfImage(volume) && volume.image === undefined && !copied.has(volume.name),
  );
}

/** Whether the pod's container never gets the files of an image: somebody on the way knows no volumes that are images. */
export function hasLostImage(pod: Pod): boolean {
  return isImageDropped(pod) || isImageUnknown(pod);
}

/** Most that kernel and initrd take on disk; those of distributions have 30 to 150 MiB. */
const KERNEL_MIB = 512;

/** The files of the guest's kernel, if it is booted from one. */
export function kernelImageOf(vmi: VirtualMachineInstance): readonly ImageFiles[] {
  const boot = vmi.spec.domain.firmware?.kernelBoot?.container;
  if (boot === undefined) return [];
  const { kernel, initrd } = kernelFilesOf(vmi.spec.domain);
  return [
    {
      name: KERNEL_FILES,
      image: boot.image,
      pullPolicy: pullPolicyOf(boot.imagePullPolicy),
      pullSecret: boot.imagePullSecret,
      mountPath: names.KERNEL_BOOT_DIR,
      copy: { option: "--parents", files: [kernel, ...[initrd ?? []].flat()], mib: KERNEL_MIB },
    },
  ];
}
