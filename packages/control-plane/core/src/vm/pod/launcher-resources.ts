// SPDX-License-Identifier: Apache-2.0
import { names, type OvercommitConfig, type VmiSpec, type BindingRegistry } from "@patchbay/api";
import type { Container } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { countVcpus, computeMemoryMiB, toMib } from "../spec/machine.ts";
import { printMi } from "./parts.ts";
import { listDisks } from "../spec/disks.ts";
import { hasEfi, findTpm } from "../spec/guest-devices.ts";
import { ifacesOf } from "../../nics/nics.ts";
import { canBind } from "../../nics/bindings/resolve-binding.ts";

/** Requested disk space of each launcher, in addition to the guest's data. */
const COMMON_DISK_MIB = 16;
export interface ResourceFacts extends MemoryFacts {
  readonly overcommit: OvercommitConfig;
  readonly networkResources: ReadonlyMap<string, number>;
  readonly isForVhostUser: boolean;
}

type ResourceAmounts = Readonly<Record<string, string>>;

/** Checks whether the pod gets the VM's amount of a resource. Patchbay computes memory and disk space itself, and ignores hugepages. */
function isUserResource(resource: string): boolean {
  return !["memory", "ephemeral-storage"].includes(resource) && !resource.startsWith("hugepages-");
}

function selectPodAmounts(
  amounts: Readonly<Record<string, string | number>> | undefined,
): ResourceAmounts {
  const entries = Object.entries(amounts ?? {}).filter(([resource]) => isUserResource(resource));
  return Object.fromEntries(entries.map(([resource, amount]) => [resource, String(amount)]));
}

/** Returns the network resources for both requests and limits, which must be equal because extended resources cannot be overcommitted. */
function countNetworkAmounts({ domain }: VmiSpec, facts: ResourceFacts): ResourceAmounts {
  const { requests = {}, limits = {} } = domain.resources ?? {};
  const sockets = facts.isForVhostUser ? [[names.VHOST_USER_RESOURCE, 1] as const] : [];
  const counts = new Map([...sockets, ...facts.networkResources]);
  const amounts = [...counts].map(([resource, count]) => {
    const requestedCounts = [requests[resource], limits[resource]].map((amount) =>
      Number(amount ?? 0),
    );
    return [resource, String(Math.max(count, ...requestedCounts.filter(Number.isInteger)))];
  });
  return Object.fromEntries(amounts) as ResourceAmounts;
}

function countDeviceAmounts(spec: VmiSpec, facts: ResourceFacts): ResourceAmounts {
  return {
    ...countNetworkAmounts(spec, facts),
    [names.TUN_RESOURCE]: "1",
    ...(facts.useEmulation ? {} : { [names.KVM_RESOURCE]: "1" }),
  };
}

function parseMiB(amount: string | number | undefined): number | undefined {
  return amount === undefined || parseQuantity(amount) === undefined ? undefined : toMib(amount);
}

/** Returns the pod's memory request and limit. With overcommitted memory, the request may be below the guest's memory. Source: KubeVirt. */
function computeMemoryAmounts(
  { domain }: VmiSpec,
  overheadMiB: number,
  facts: ResourceFacts,
): { readonly request: string; readonly limit: string } {
  const { requests, limits, overcommitGuestOverhead } = domain.resources ?? {};
  const guestMiB = computeMemoryMiB(domain);
  const { memoryPercent } = facts.overcommit;
  const requestedMiB =
    parseMiB(requests?.["memory"]) ?? Math.floor((guestMiB * 100) / memoryPercent);
  const limitMiB = parseMiB(limits?.["memory"]) ?? Math.max(requestedMiB, guestMiB);
  return {
    request: printMi(requestedMiB + (overcommitGuestOverhead === true ? 0 : overheadMiB)),
    limit: printMi(limitMiB + overheadMiB + computePortInitMiB(facts)),
  };
}

function computeCpuRequest({ domain }: VmiSpec, { overcommit }: ResourceFacts): ResourceAmounts {
  const { requests, limits } = domain.resources ?? {};
  // If only a CPU limit is set, Kubernetes uses it as the request too.
  if (requests?.["cpu"] !== undefined || limits?.["cpu"] !== undefined) return {};
  return { cpu: `${String(Math.ceil((countVcpus(domain) * 1000) / overcommit.cpuRatio))}m` };
}

interface DiskUse {
  readonly launcherMiB: number;
  /** Maximum space for disks that the launcher pod creates or copies. The VM's limit for ephemeral storage, if set, replaces this value. */
  readonly guestMiB: number;
}

export function computeLauncherResources(
  spec: VmiSpec,
  facts: ResourceFacts,
  disk: DiskUse,
): NonNullable<Container["resources"]> {
  const memory = computeMemoryAmounts(spec, computeOverheadMiB(spec, facts), facts);
  const { requests, limits } = spec.domain.resources ?? {};
  const devices = countDeviceAmounts(spec, facts);
  const leastDiskMiB = COMMON_DISK_MIB + (parseMiB(requests?.["ephemeral-storage"]) ?? 0);
  const mostDiskMiB = disk.launcherMiB + (parseMiB(limits?.["ephemeral-storage"]) ?? disk.guestMiB);
  return {
    requests: {
      ...computeCpuRequest(spec, facts),
      ...selectPodAmounts(requests),
      memory: memory.request,
      "ephemeral-storage": printMi(leastDiskMiB),
      ...devices,
    },
    limits: {
      ...selectPodAmounts(limits),
      memory: memory.limit,
      "ephemeral-storage": printMi(Math.max(leastDiskMiB, mostDiskMiB)),
      ...devices,
    },
  };
}

/** Memory of libvirt's daemon (29 MiB) and of the programs that start and stop it. */
const LIBVIRT_MIB = 32;
/** Memory of QEMU with one vCPU and no devices: code, libraries and heap. Measured with QEMU 7.2; see docs/performance.md. */
const QEMU_MIB = 64;
/** Memory for the code that QEMU translates for an emulated guest. The domain's element `tb-cache` limits this memory. */
const TRANSLATED_CODE_MIB = 96;
/** MiB of guest memory per MiB of page tables. A page table of 4 KiB maps 2 MiB. Source: x86-64 paging. */
const GUEST_MIB_PER_PAGE_TABLE_MIB = 512;
/** Memory of a vCPU: thread, registers and translation tables. */
const VCPU_MIB = 8;
/** Video memory (16 MiB) and VNC buffers. */
const GRAPHICS_MIB = 32;
/** Memory for the code and variables of EFI (4 MiB) and QEMU's buffers. */
const EFI_MIB = 16;
const TPM_MIB = 24;
/** Memory per disk for pending requests and a part of the qcow2 table cache. The whole cache may reach 32 MiB. */
const DISK_MIB = 8;
/**
 * Memory per PCIe port that QEMU needs only while it initializes the ports and rebuilds its memory maps. Measured on QEMU 7.2,
 * peak anonymous memory in 6 starts each: 87 MiB without ports, 139 with 32 ports, 217 with 64, 329 with 128.
 */
const PEAK_MIB_PER_PORT = 2;

interface MemoryFacts {
  readonly useEmulation: boolean;
  readonly ports: number;
  /** Whether the guest has a display. By default, a VM with an older version of the PCI layout has no display. */
  readonly hasDisplay: boolean;
  readonly bindingsMiB: number;
}

function computeDevicesMiB(spec: VmiSpec, { hasDisplay }: MemoryFacts): number {
  return [
    hasDisplay ? GRAPHICS_MIB : 0,
    hasEfi(spec) ? EFI_MIB : 0,
    findTpm(spec) === undefined ? 0 : TPM_MIB,
    listDisks(spec).length * DISK_MIB,
  ].reduce((sum, mib) => sum + mib, 0);
}

/** Returns the memory that the launcher needs in addition to guest memory. vhost needs none, because its rings are in the host's kernel. */
export function computeOverheadMiB(spec: VmiSpec, facts: MemoryFacts): number {
  return (
    LIBVIRT_MIB +
    QEMU_MIB +
    (facts.useEmulation ? TRANSLATED_CODE_MIB : 0) +
    Math.ceil(computeMemoryMiB(spec.domain) / GUEST_MIB_PER_PAGE_TABLE_MIB) +
    countVcpus(spec.domain) * VCPU_MIB +
    computeDevicesMiB(spec, facts) +
    facts.bindingsMiB
  );
}

function computePortInitMiB({ ports }: MemoryFacts): number {
  return ports * PEAK_MIB_PER_PORT;
}

const BYTES_PER_MIB = 1024 * 1024;

function readOverheadMiB(registry: BindingRegistry, name: string): number {
  const memory = registry[name]?.computeResourceOverhead?.requests?.["memory"] ?? 0;
  return Math.ceil((parseQuantity(memory) ?? 0) / BYTES_PER_MIB);
}

/** Returns the memory overhead of all binding plugins that the interfaces use. Source: KubeVirt pkg/network/resources memory.go. */
export function computeBindingsMiB(spec: VmiSpec, registry: BindingRegistry): number {
  const boundIfaces = ifacesOf(spec).filter((iface) => canBind(spec, iface, registry));
  const names = new Set(boundIfaces.flatMap(({ binding }) => binding?.name ?? []));
  return [...names].reduce((sum, name) => sum + readOverheadMiB(registry, name), 0);
}
