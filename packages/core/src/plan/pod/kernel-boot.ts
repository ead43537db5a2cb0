// SPDX-License-Identifier: Apache-2.0
// How a guest's kernel comes into its launcher: its image is a volume, or two containers copy the files before the start.
import {
  names,
  type Container,
  type Pod,
  type PodVolume,
  type SecurityContext,
  type VirtualMachineInstance,
  type VolumeMount,
} from "@patchbay/api";
import { kernelFilesOf } from "../../spec/kernel.ts";

/** Volume with the guest's kernel: the image itself, or what was copied from it. */
const KERNEL_VOLUME = "kernel-boot";
/** Volume with the program that copies, since the kernel's image need not hold any. */
const TOOL_VOLUME = "copy-files";
/** Puts the program into its volume. */
const TOOL_CONTAINER = "copy-files";
/** Copies the kernel; its image is the kernel's. */
export const KERNEL_CONTAINER = "kernel-boot";
/** The program in the launcher's image: one file that needs no other. */
const TOOL = "/usr/bin/copy-files";
/** Where the volumes are while files are copied: places that no image has files at. */
const TOOL_DIR = "/patchbay/bin";
const COPY_DIR = "/patchbay/kernel-boot";
/** Most that kernel and initrd take on disk; those of distributions have 30 to 150 MiB. */
const KERNEL_MIB = 512;
/** Most that the program takes; it has less than 1 MiB. */
const TOOL_MIB = 16;
/** Of a container that copies: the program takes less than 1 MiB, pages of files go when memory is short. */
const COPY_MEMORY_MIB = 128;

/** Source: Kubernetes core/v1 PullPolicy. */
const PULL_POLICIES = ["Always", "IfNotPresent", "Never"] as const;
type PullPolicy = (typeof PULL_POLICIES)[number];

/** The policy of that name; none: an image that is there is taken. Undefined for a word that is no policy. */
export function findPullPolicy(name: string | undefined): PullPolicy | undefined {
  if (name === undefined || name === "") return "IfNotPresent";
  return PULL_POLICIES.find((policy) => policy === name);
}

/** How the cluster has things. */
export interface KernelRequest {
  /** Of the launcher. */
  readonly image: string;
  /** Whether the API server keeps volumes that are images. Source: Kubernetes KEP-4639 "image volume source". */
  readonly keepsImageVolumes: boolean;
  /** Of each container. */
  readonly securityContext: SecurityContext;
}

/** What of a pod brings the kernel. */
export interface KernelParts {
  readonly volumes: readonly PodVolume[];
  readonly initContainers: readonly Container[];
  /** Of the launcher's container. */
  readonly mounts: readonly VolumeMount[];
  readonly secrets: readonly { readonly name: string }[];
  /** Most that all of it takes on the node's disk, MiB. */
  readonly diskMiB: number;
}

const NOTHING: KernelParts = {
  volumes: [],
  initContainers: [],
  mounts: [],
  secrets: [],
  diskMiB: 0,
};

function copying(request: KernelRequest): Pick<Container, "resources" | "securityContext"> {
  const resources = { memory: `${String(COPY_MEMORY_MIB)}Mi`, "ephemeral-storage": "16Mi" };
  return {
    resources: { requests: resources, limits: resources },
    securityContext: request.securityContext,
  };
}

function toolContainer(request: KernelRequest): Container {
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

function kernelContainer(
  vmi: VirtualMachineInstance,
  image: { readonly reference: string; readonly pullPolicy: PullPolicy },
  request: KernelRequest,
): Container {
  const { kernel, initrd } = kernelFilesOf(vmi.spec.domain);
  return {
    name: KERNEL_CONTAINER,
    image: image.reference,
    imagePullPolicy: image.pullPolicy,
    command: [`${TOOL_DIR}/copy-files`, "--parents", COPY_DIR, kernel, ...[initrd ?? []].flat()],
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...copying(request),
    volumeMounts: [
      { name: TOOL_VOLUME, mountPath: TOOL_DIR, readOnly: true },
      { name: KERNEL_VOLUME, mountPath: COPY_DIR },
    ],
  };
}

/** What a launcher pod needs for its guest's kernel; the kernel's place in the launcher is the same either way. */
export function kernelPartsOf(vmi: VirtualMachineInstance, request: KernelRequest): KernelParts {
  const boot = vmi.spec.domain.firmware?.kernelBoot?.container;
  if (boot === undefined) return NOTHING;
  const secret = boot.imagePullSecret ?? "";
  // Another word keeps the VM from being started.
  const pullPolicy = findPullPolicy(boot.imagePullPolicy) ?? "IfNotPresent";
  const image = { reference: boot.image, pullPolicy };
  const shared = {
    mounts: [{ name: KERNEL_VOLUME, mountPath: names.KERNEL_BOOT_DIR, readOnly: true }],
    secrets: secret === "" ? [] : [{ name: secret }],
  };
  if (request.keepsImageVolumes) {
    return { ...NOTHING, ...shared, volumes: [{ name: KERNEL_VOLUME, image }] };
  }
  return {
    ...shared,
    volumes: [
      { name: KERNEL_VOLUME, emptyDir: { sizeLimit: `${String(KERNEL_MIB)}Mi` } },
      { name: TOOL_VOLUME, emptyDir: { sizeLimit: `${String(TOOL_MIB)}Mi` } },
    ],
    initContainers: [toolContainer(request), kernelContainer(vmi, image, request)],
    diskMiB: KERNEL_MIB + TOOL_MIB,
  };
}

function findKernelVolume({ spec }: Pod): PodVolume | undefined {
  return spec.volumes?.find(({ name }) => name === KERNEL_VOLUME);
}

/** Whether the pod's kernel comes by a volume that is an image. */
export function hasImageVolume(pod: Pod): boolean {
  return findKernelVolume(pod)?.image !== undefined;
}

/**
 * Whether the API server dropped the image of the guest's kernel: a volume of a kind that it does not know is empty, and
 * nobody fills it.
 */
export function hasLostKernel(pod: Pod): boolean {
  const volume = findKernelVolume(pod);
  const isCopied = pod.spec.initContainers?.some(({ name }) => name === KERNEL_CONTAINER);
  return volume !== undefined && volume.image === undefined && isCopied !== true;
}
