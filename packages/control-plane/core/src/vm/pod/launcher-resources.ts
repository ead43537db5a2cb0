// SPDX-License-Identifier: Apache-2.0
// Resource requests and limits of a launcher.
import { names, type OvercommitConfig, type VmiSpec, type BindingRegistry } from "@patchbay/api";
import type { Container } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { countVcpus, memoryMiBOf, toMib } from "../spec/machine.ts";
import { inMi } from "./parts.ts";
import { listDisks } from "../spec/disks.ts";
import { hasEfi, findTpm } from "../spec/guest-devices.ts";
import { ifacesOf } from "../../nics/nics.ts";
import { canBind } from "../../nics/bindings/resolve-binding.ts";

/** Requested disk space in addition to the guest's data. */
const COMMON_DISK_MIB = 16;
export interface ResourceFacts extends MemoryFacts {
  readonly overcommit: OvercommitConfig;
  readonly networkResources: ReadonlyMap<string, number>;
  readonly isForVhostUser: boolean;
}

type Amounts = Readonly<Record<string, string>>;

/** Whether the pod gets the VM's amount of a resource. Others are computed here, and hugepages are not supported. */
function isUserResource(resource: string): boolean {
  return !["memory", "ephemeral-storage"].includes(resource) && !resource.startsWith("hugepages-");
}

function podAmounts(amounts: Readonly<Record<string, string | number>> | undefined): Amounts {
  const entries = Object.entries(amounts ?? {}).filter(([resource]) => isUserResource(resource));
  return Object.fromEntries(entries.map(([resource, amount]) => [resource, String(amount)]));
}

/** Returns the amounts of network resources, for requests and limits alike, because extended resources cannot be overcommitted. */
function networkAmounts({ domain }: VmiSpec, facts: ResourceFacts): Amounts {
  const { requests = {}, limits = {} } = domain.resources ?? {};
  const sockets = facts.isForVhostUser ? [[names.VHOST_USER_RESOURCE, 1] as const] : [];
  const counts = new Map([...sockets, ...facts.networkResources]);
  const amounts = [...counts].map(([resource, count]) => {
    const requested = [requests[resource], limits[resource]].map((amount) => Number(amount ?? 0));
    return [resource, String(Math.max(count, ...requested.filter(Number.isInteger)))];
  });
  return Object.fromEntries(amounts) as Amounts;
}

function deviceAmounts(spec: VmiSpec, facts: ResourceFacts): Amounts {
  return {
    ...networkAmounts(spec, facts),
    [names.TUN_RESOURCE]: "1",
    ...(facts.useEmulation ? {} : { [names.KVM_RESOURCE]: "1" }),
  };
}

function parseMiB(amount: string | number | undefined): number | undefined {
  return amount === undefined || parseQuantity(amount) === undefined ? undefined : toMib(amount);
}

/** Returns the pod's memory. With overcommit, the request is less than the guest's memory. Source: KubeVirt. */
function memoryAmounts(
  { domain }: VmiSpec,
  overheadMiB: number,
  facts: ResourceFacts,
): { readonly request: string; readonly limit: string } {
  const { requests, limits, overcommitGuestOverhead } = domain.resources ?? {};
  const guestMiB = memoryMiBOf(domain);
  const { memoryPercent } = facts.overcommit;
  const requestedMiB =
    parseMiB(requests?.["memory"]) ?? Math.floor((guestMiB * 100) / memoryPercent);
  const limitMiB = parseMiB(limits?.["memory"]) ?? Math.max(requestedMiB, guestMiB);
  return {
    request: inMi(requestedMiB + (overcommitGuestOverhead === true ? 0 : overheadMiB)),
    limit: inMi(limitMiB + overheadMiB + computePeakMiB(facts)),
  };
}

function cpuRequest({ domain }: VmiSpec, { overcommit }: ResourceFacts): Amounts {
  const { requests, limits } = domain.resources ?? {};
  // Without a request, Kubernetes uses the limit.
  if (requests?.["cpu"] !== undefined || limits?.["cpu"] !== undefined) return {};
  return { cpu: `${String(Math.ceil((countVcpus(domain) * 1000) / overcommit.cpuRatio))}m` };
}

interface DiskUse {
  readonly ownMiB: number;
  /** Space of created and copied disks, which a limit of the VM replaces. */
  readonly guestMiB: number;
}

export function computeLauncherResources(
  spec: VmiSpec,
  facts: ResourceFacts,
  disk: DiskUse,
): NonNullable<Container["resources"]> {
  const memory = memoryAmounts(spec, computeOverheadMiB(spec, facts), facts);
  const { requests, limits } = spec.domain.resources ?? {};
  const devices = deviceAmounts(spec, facts);
  const leastDiskMiB = COMMON_DISK_MIB + (parseMiB(requests?.["ephemeral-storage"]) ?? 0);
  const mostDiskMiB = disk.ownMiB + (parseMiB(limits?.["ephemeral-storage"]) ?? disk.guestMiB);
  return {
    requests: {
      ...cpuRequest(spec, facts),
      ...podAmounts(requests),
      memory: memory.request,
      "ephemeral-storage": inMi(leastDiskMiB),
      ...devices,
    },
    limits: {
      ...podAmounts(limits),
      memory: memory.limit,
      "ephemeral-storage": inMi(Math.max(leastDiskMiB, mostDiskMiB)),
      ...devices,
    },
  };
}

/** Memory of libvirt's daemon (29 MiB) and the programs that start and stop it. */
const LIBVIRT_MIB = 32;
/** Memory of QEMU with one vCPU and no devices: code, libraries, heap. Measured with QEMU 7.2; docs/performance.md. */
const QEMU_MIB = 64;
/** Memory for translated code, which `tb-cache` of the domain limits. */
const TRANSLATED_CODE_MIB = 96;
/** MiB of guest memory for each MiB of page tables: 4 KiB map 2 MiB. Source: x86-64 paging. */
const GUEST_MIB_PER_PAGE_TABLE_MIB = 512;
/** Memory of a vCPU: thread, registers and translation tables. */
const VCPU_MIB = 8;
/** Video memory (16 MiB) and VNC buffers. */
const GRAPHICS_MIB = 32;
/** Memory for EFI code and variables (4 MiB) and QEMU's buffers. */
const EFI_MIB = 16;
const TPM_MIB = 24;
/** Memory of a disk: requests in flight and part of the qcow2 tables (at most 32 MiB, for 256 GiB of data). */
const DISK_MIB = 8;
/**
 * Temporary memory per port while firmware and kernel initialize the ports: QEMU rebuilds its memory maps on each
 * change and frees them late. Measured on QEMU 7.2, peak anonymous memory in 6 starts each: no ports 87 MiB, 32 ports
 * 139, 64 ports 217, 128 ports 329. Afterwards 0.2 MiB per port.
 */
const PEAK_MIB_PER_PORT = 2;

interface MemoryFacts {
  readonly useEmulation: boolean;
  readonly ports: number;
  /** Whether the guest has a display. Older layouts have none by default. */
  readonly hasDisplay: boolean;
  readonly bindingsMiB: number;
}

function devicesMiB(spec: VmiSpec, { hasDisplay }: MemoryFacts): number {
  return [
    hasDisplay ? GRAPHICS_MIB : 0,
    hasEfi(spec) ? EFI_MIB : 0,
    findTpm(spec) === undefined ? 0 : TPM_MIB,
    listDisks(spec).length * DISK_MIB,
  ].reduce((sum, mib) => sum + mib, 0);
}

/** Returns the memory of the launcher's programs without the guest's. vhost adds none, because its rings are in the host's kernel. */
export function computeOverheadMiB(spec: VmiSpec, facts: MemoryFacts): number {
  return (
    LIBVIRT_MIB +
    QEMU_MIB +
    (facts.useEmulation ? TRANSLATED_CODE_MIB : 0) +
    Math.ceil(memoryMiBOf(spec.domain) / GUEST_MIB_PER_PAGE_TABLE_MIB) +
    countVcpus(spec.domain) * VCPU_MIB +
    devicesMiB(spec, facts) +
    facts.bindingsMiB
  );
}

function computePeakMiB({ ports }: MemoryFacts): number {
  return ports * PEAK_MIB_PER_PORT;
}

const BYTES_PER_MIB = 1024 * 1024;

function readOverheadMiB(registry: BindingRegistry, name: string): number {
  const memory = registry[name]?.computeResourceOverhead?.requests?.["memory"] ?? 0;
  return Math.ceil((parseQuantity(memory) ?? 0) / BYTES_PER_MIB);
}

/** Returns the memory of the VMI's bindings, each rounded up and counted once. Unreadable amounts are 0. Source: KubeVirt pkg/network/resources memory.go. */
export function computeBindingsMiB(spec: VmiSpec, registry: BindingRegistry): number {
  const bound = ifacesOf(spec).filter((iface) => canBind(spec, iface, registry));
  const names = new Set(bound.flatMap(({ binding }) => binding?.name ?? []));
  return [...names].reduce((sum, name) => sum + readOverheadMiB(registry, name), 0);
}
