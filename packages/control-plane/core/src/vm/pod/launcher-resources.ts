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

/** Excludes memory and disk space, which Patchbay computes, and hugepages, which Patchbay ignores. */
function isUserResource(resource: string): boolean {
  return !["memory", "ephemeral-storage"].includes(resource) && !resource.startsWith("hugepages-");
}

function selectPodAmounts(
  amounts: Readonly<Record<string, string | number>> | undefined,
): ResourceAmounts {
  const entries = Object.entries(amounts ?? {}).filter(([resource]) => isUserResource(resource));
  return Object.fromEntries(entries.map(([resource, amount]) => [resource, String(amount)]));
}

/** Returns amounts for both requests and limits, because Kubernetes cannot overcommit extended resources. */
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

/** Returns the memory request and limit. Overcommitment can lower the request below guest memory. Source: KubeVirt. */
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
  /** Maximum MiB of disks in the pod. The VM's limit for ephemeral storage replaces this value. */
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
/** Memory of QEMU with one vCPU and no devices. Measured with QEMU 7.2; see docs/performance.md. */
const QEMU_MIB = 64;
/** Memory for translated code of an emulated guest, limited by the domain's element `tb-cache`. */
const TRANSLATED_CODE_MIB = 96;
/** MiB of guest memory per MiB of page tables: 4 KiB tables map 2 MiB. Source: x86-64 paging. */
const GUEST_MIB_PER_PAGE_TABLE_MIB = 512;
/** Memory of a vCPU: thread, registers and translation tables. */
const VCPU_MIB = 8;
/** Video memory (16 MiB) and VNC buffers. */
const GRAPHICS_MIB = 32;
/** Memory for the code and variables of EFI (4 MiB) and QEMU's buffers. */
const EFI_MIB = 16;
const TPM_MIB = 24;
/** Memory per disk for pending requests and a part of the qcow2 table cache. */
const DISK_MIB = 8;
/** Memory per PCIe port during QEMU's start. QEMU 7.2 peaked at 87 MiB without ports and 329 with 128. */
const PEAK_MIB_PER_PORT = 2;

interface MemoryFacts {
  readonly useEmulation: boolean;
  readonly ports: number;
  /** Whether the guest has a display. By default, VMs with an older PCI layout have none. */
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

/** Returns the launcher's memory beyond guest memory, without vhost rings, which are in the host kernel. */
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
