// SPDX-License-Identifier: Apache-2.0
// Which machine a VMI asks for.
import { names, parseQuantity, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";

const DEFAULT_MACHINE = "q35";

/** The machine type; q35 where none is named. */
export function machineOf(domain: VmiSpec["domain"]): string {
  const type = domain.machine?.type;
  return type === undefined || type === "" ? DEFAULT_MACHINE : type;
}

/** Sockets, cores of each, threads of each core. */
export interface CpuTopology {
  readonly sockets: number;
  readonly cores: number;
  readonly threads: number;
}

/** What is asked of the node, at most or at least, as whole processors. */
function processorsAsked({ resources }: VmiSpec["domain"]): number {
  const asked = resources?.limits?.["cpu"] ?? resources?.requests?.["cpu"];
  return Math.max(1, Math.ceil(asked === undefined ? 1 : (parseQuantity(asked) ?? 1)));
}

/**
 * How the guest's processors are arranged: one of each where one is not said; where none is, a socket for each processor
 * that is asked of the node. Source: KubeVirt SetDefaultGuestCPUTopology.
 */
export function cpuTopologyOf(domain: VmiSpec["domain"]): CpuTopology {
  const { cores, sockets, threads } = domain.cpu ?? {};
  if (cores === undefined && sockets === undefined && threads === undefined)
    return { sockets: processorsAsked(domain), cores: 1, threads: 1 };
  return { sockets: sockets ?? 1, cores: cores ?? 1, threads: threads ?? 1 };
}

/** How many virtual CPUs the guest has. */
export function vcpusOf(domain: VmiSpec["domain"]): number {
  const { sockets, cores, threads } = cpuTopologyOf(domain);
  return sockets * cores * threads;
}

/** Whether PCI devices sit on the root complex, where nothing can be plugged. */
export function isOnRootComplex(vmi: VirtualMachineInstance): boolean {
  return vmi.metadata.annotations?.[names.ROOT_COMPLEX_ANNOTATION] === "true";
}

/** Source: KubeVirt defaults have none; the smallest memory with which Debian's cloud kernel boots is about 100 MiB. */
const DEFAULT_MEMORY_MIB = 256;
const BYTES_PER_MIB = 2 ** 20;

/** A quantity in MiB, rounded down; what cannot be read is 0. */
export function mibOf(quantity: string | number): number {
  return Math.floor((parseQuantity(quantity) ?? 0) / BYTES_PER_MIB);
}

/**
 * The guest's memory in MiB, rounded down: `memory.guest`, else `resources.requests.memory`, else `resources.limits.memory`,
 * else the default. What cannot be read is 0: such a guest is not started. Source: KubeVirt, where a limit is the request
 * that is not given.
 */
export function memoryMiBOf({ memory, resources }: VmiSpec["domain"]): number {
  const { requests, limits } = resources ?? {};
  const quantity = memory?.guest ?? requests?.["memory"] ?? limits?.["memory"];
  return quantity === undefined ? DEFAULT_MEMORY_MIB : mibOf(quantity);
}
