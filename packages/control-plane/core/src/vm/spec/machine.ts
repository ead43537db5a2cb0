// SPDX-License-Identifier: Apache-2.0
// Machine type, CPUs, memory and kernel of a guest.
import { names, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";
import { parseQuantity } from "@patchbay/api/values";

const DEFAULT_MACHINE = "q35";

export function buildMachine(domain: VmiSpec["domain"]): string {
  const type = domain.machine?.type;
  return type === undefined || type === "" ? DEFAULT_MACHINE : type;
}

export interface CpuTopology {
  readonly sockets: number;
  readonly cores: number;
  readonly threads: number;
}

/** Returns the number of CPUs in the limits, or in the requests if no limit is set. Rounds up. */
function countRequestedCpus({ resources }: VmiSpec["domain"]): number {
  const quantity = resources?.limits?.["cpu"] ?? resources?.requests?.["cpu"];
  return Math.max(1, Math.ceil(quantity === undefined ? 1 : (parseQuantity(quantity) ?? 1)));
}

/** Builds the CPU topology. By default, each requested CPU is a socket. Source: KubeVirt SetDefaultGuestCPUTopology. */
export function buildCpuTopology(domain: VmiSpec["domain"]): CpuTopology {
  const { cores, sockets, threads } = domain.cpu ?? {};
  if (cores === undefined && sockets === undefined && threads === undefined)
    return { sockets: countRequestedCpus(domain), cores: 1, threads: 1 };
  return { sockets: sockets ?? 1, cores: cores ?? 1, threads: threads ?? 1 };
}

export function countVcpus(domain: VmiSpec["domain"]): number {
  const { sockets, cores, threads } = buildCpuTopology(domain);
  return sockets * cores * threads;
}

/** Checks whether PCI devices are on the root complex, which does not support hot-plug. */
export function isOnRootComplex(vmi: VirtualMachineInstance): boolean {
  return vmi.metadata.annotations?.[names.ROOT_COMPLEX_ANNOTATION] === "true";
}

/** Default memory of a guest in MiB, enough to boot Debian's cloud kernel. KubeVirt has no default. */
const DEFAULT_MEMORY_MIB = 256;
const BYTES_PER_MIB = 2 ** 20;

/** Converts a quantity to MiB, rounded down. Returns 0 for an invalid quantity. */
export function toMib(quantity: string | number): number {
  return Math.floor((parseQuantity(quantity) ?? 0) / BYTES_PER_MIB);
}

/** Returns the guest's memory in MiB, rounded down, or 0 for an invalid quantity. Validation rejects a VM with 0. */
export function computeMemoryMiB({ memory, resources }: VmiSpec["domain"]): number {
  const { requests, limits } = resources ?? {};
  const quantity = memory?.guest ?? requests?.["memory"] ?? limits?.["memory"];
  return quantity === undefined ? DEFAULT_MEMORY_MIB : toMib(quantity);
}

/** Default path of the kernel in its image. KubeVirt has no default. */
const DEFAULT_KERNEL = "vmlinuz";

interface KernelFiles {
  /** Absolute path in the image, without `.` and `..`. */
  readonly kernel: string;
  readonly initrd: string | undefined;
}

/** Resolves a path against the image's root. The result is always below the root. */
export function resolveFromRoot(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

function isNonEmpty(path: string | undefined): path is string {
  return path !== undefined && path !== "";
}

export function listKernelFiles({ firmware }: VmiSpec["domain"]): KernelFiles {
  const container = firmware?.kernelBoot?.container;
  const { kernelPath, initrdPath } = container ?? {};
  return {
    kernel: resolveFromRoot(isNonEmpty(kernelPath) ? kernelPath : DEFAULT_KERNEL),
    initrd: isNonEmpty(initrdPath) ? resolveFromRoot(initrdPath) : undefined,
  };
}

export function toLauncherPath(path: string): string {
  return `${names.KERNEL_BOOT_DIR}${path}`;
}
