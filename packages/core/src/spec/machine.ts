// SPDX-License-Identifier: Apache-2.0
// Which machine a VMI asks for.
import { names, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";

const DEFAULT_MACHINE = "q35";

/** The machine type; q35 where none is named. */
export function machineOf(domain: VmiSpec["domain"]): string {
  const type = domain.machine?.type;
  return type === undefined || type === "" ? DEFAULT_MACHINE : type;
}

/** How many virtual CPUs the guest has: one thread of one core of one socket where nothing is said. */
export function vcpusOf(domain: VmiSpec["domain"]): number {
  const { cores = 1, sockets = 1, threads = 1 } = domain.cpu ?? {};
  return cores * sockets * threads;
}

/** Whether PCI devices sit on the root complex, where nothing can be plugged. */
export function isOnRootComplex(vmi: VirtualMachineInstance): boolean {
  return vmi.metadata.annotations?.[names.ROOT_COMPLEX_ANNOTATION] === "true";
}
