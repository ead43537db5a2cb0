// SPDX-License-Identifier: Apache-2.0
// What a launcher asks of its node: what the VM says, and what the launcher takes for itself.
import {
  names,
  parseQuantity,
  type Container,
  type OvercommitConfig,
  type VmiSpec,
  type BindingRegistry,
} from "@patchbay/api";
import { vcpusOf, memoryMiBOf, mibOf } from "../../spec/machine.ts";
import { inMi } from "./parts.ts";
import { disksOf } from "../../spec/disks.ts";
import { hasEfi, tpmOf } from "../../spec/guest-devices.ts";
import { ifacesOf } from "../../spec/nics.ts";
import { canBind } from "../../bindings/resolve-binding.ts";

/** What a launcher commonly has on disk beside the guest's data. */
const COMMON_DISK_MIB = 16;
/** What resources are computed from, beside the specification. */
export interface ResourceFacts extends MemoryFacts {
  readonly overcommit: OvercommitConfig;
  /** How many devices of which extended resource its networks need. */
  readonly networkResources: ReadonlyMap<string, number>;
  /** Whether its pod is to have a directory of sockets of vhost-user. */
  readonly isForVhostUser: boolean;
}

type Amounts = Readonly<Record<string, string>>;

/** What is computed here; `hugepages-` would come with a guest that has them. */
function isForPod(resource: string): boolean {
  return !["memory", "ephemeral-storage"].includes(resource) && !resource.startsWith("hugepages-");
}

function forPod(amounts: Readonly<Record<string, string | number>> | undefined): Amounts {
  const entries = Object.entries(amounts ?? {}).filter(([resource]) => isForPod(resource));
  return Object.fromEntries(entries.map(([resource, amount]) => [resource, String(amount)]));
}

/** Of each as many as its networks need, or as the VM says itself where that is more: extended resources are not overcommitted. */
function ofNetworks({ domain }: VmiSpec, facts: ResourceFacts): Amounts {
  const { requests = {}, limits = {} } = domain.resources ?? {};
  const sockets = facts.isForVhostUser ? [[names.VHOST_USER_RESOURCE, 1] as const] : [];
  const counts = new Map([...sockets, ...facts.networkResources]);
  const amounts = [...counts].map(([resource, count]) => {
    const said = [requests[resource], limits[resource]].map((amount) => Number(amount ?? 0));
    return [resource, String(Math.max(count, ...said.filter(Number.isInteger)))];
  });
  return Object.fromEntries(amounts) as Amounts; // pairs of texts
}

function devicesOf(spec: VmiSpec, facts: ResourceFacts): Amounts {
  return {
    ...ofNetworks(spec, facts),
    [names.TUN_RESOURCE]: "1",
    ...(facts.useEmulation ? {} : { [names.KVM_RESOURCE]: "1" }),
  };
}

function given(amount: string | number | undefined): number | undefined {
  return amount === undefined || parseQuantity(amount) === undefined ? undefined : mibOf(amount);
}

/** What is requested of memory may be less than the guest's: overcommitted by who says so. Source: KubeVirt. */
function memoryOf(
  { domain }: VmiSpec,
  overheadMiB: number,
  facts: ResourceFacts,
): { readonly request: string; readonly limit: string } {
  const { requests, limits, overcommitGuestOverhead } = domain.resources ?? {};
  const guestMiB = memoryMiBOf(domain);
  const { memoryPercent } = facts.overcommit;
  const asked = given(requests?.["memory"]) ?? Math.floor((guestMiB * 100) / memoryPercent);
  const most = given(limits?.["memory"]) ?? Math.max(asked, guestMiB);
  return {
    request: inMi(asked + (overcommitGuestOverhead === true ? 0 : overheadMiB)),
    limit: inMi(most + overheadMiB + peakMiBOf(facts)),
  };
}

function cpuRequest({ domain }: VmiSpec, { overcommit }: ResourceFacts): Amounts {
  const { requests, limits } = domain.resources ?? {};
  // Kubernetes requests what is the limit where nothing else is said.
  if (requests?.["cpu"] !== undefined || limits?.["cpu"] !== undefined) return {};
  return { cpu: `${String(Math.ceil((vcpusOf(domain) * 1000) / overcommit.cpuRatio))}m` };
}

/** Most that a launcher takes on the node's disk, MiB. */
interface DiskUse {
  /** Sockets, logs, files of libvirt. */
  readonly ownMiB: number;
  /** What is made and copied for the guest, where the VM does not say. */
  readonly guestMiB: number;
}

/** Of the launcher's container. */
export function launcherResourcesOf(
  spec: VmiSpec,
  facts: ResourceFacts,
  disk: DiskUse,
): NonNullable<Container["resources"]> {
  const memory = memoryOf(spec, overheadMiBOf(spec, facts), facts);
  const { requests, limits } = spec.domain.resources ?? {};
  const devices = devicesOf(spec, facts);
  const leastDiskMiB = COMMON_DISK_MIB + (given(requests?.["ephemeral-storage"]) ?? 0);
  const mostDiskMiB = disk.ownMiB + (given(limits?.["ephemeral-storage"]) ?? disk.guestMiB);
  return {
    requests: {
      ...cpuRequest(spec, facts),
      ...forPod(requests),
      memory: memory.request,
      "ephemeral-storage": inMi(leastDiskMiB),
      ...devices,
    },
    limits: {
      ...forPod(limits),
      memory: memory.limit,
      "ephemeral-storage": inMi(Math.max(leastDiskMiB, mostDiskMiB)),
      ...devices,
    },
  };
}

/** libvirt's daemon (29 MiB) and the programs that start and stop it. */
const DAEMONS_MIB = 32;
/** QEMU with a machine of one processor and nothing in it: code, libraries, heap. */
const EMULATOR_MIB = 64;
/** Code that QEMU has translated; its cache is that large at most: `tb-cache` of the domain. */
const TRANSLATED_MIB = 96;
/** A table of 4 KiB for each 2 MiB of the guest's memory. Source: x86-64 paging. */
const GUEST_PER_PAGE_TABLES = 512;
/** Thread, registers and translated code's tables of one processor. */
const VCPU_MIB = 8;
/** Video memory of the display (16 MiB), and what is sent of it by VNC. */
const GRAPHICS_MIB = 32;
/** Code and variables of EFI (4 MiB), and what QEMU keeps of them. */
const EFI_MIB = 16;
/** swtpm. */
const TPM_MIB = 24;
/** Requests of a disk on their way, and what a qcow2 file's tables take (32 MiB at most, of 256 GiB of data). */
const DISK_MIB = 8;
/**
 * What QEMU may take more for each port for a moment, while firmware and kernel set the ports up: it makes its memory
 * maps anew for each change and frees them late. Measured on QEMU 7.2, peak of anonymous memory in 6 starts each: no
 * ports 87 MiB, 32 ports 139, 64 ports 217, 128 ports 329. Afterwards a port takes 0.2 MiB.
 */
const PEAK_MIB_PER_PORT = 2;

/** What memory is computed from, beside the specification. */
interface MemoryFacts {
  readonly useEmulation: boolean;
  /** PCIe ports of the domain. */
  readonly ports: number;
  /** Whether the guest has a screen: older layouts have none where nothing is said. */
  readonly hasDisplay: boolean;
  /** What its registered bindings take. */
  readonly bindingsMiB: number;
}

function devicesMiB(spec: VmiSpec, { hasDisplay }: MemoryFacts): number {
  return [
    hasDisplay ? GRAPHICS_MIB : 0,
    hasEfi(spec) ? EFI_MIB : 0,
    tpmOf(spec) === undefined ? 0 : TPM_MIB,
    disksOf(spec).length * DISK_MIB,
  ].reduce((sum, mib) => sum + mib, 0);
}

/** What a launcher has beside the guest's memory, MiB; vhost takes none of it: the host's kernel has its rings. */
export function overheadMiBOf(spec: VmiSpec, facts: MemoryFacts): number {
  return (
    DAEMONS_MIB +
    EMULATOR_MIB +
    (facts.useEmulation ? TRANSLATED_MIB : 0) +
    Math.ceil(memoryMiBOf(spec.domain) / GUEST_PER_PAGE_TABLES) +
    vcpusOf(spec.domain) * VCPU_MIB +
    devicesMiB(spec, facts) +
    facts.bindingsMiB
  );
}

/** What it takes beside that for a moment, MiB. */
function peakMiBOf({ ports }: MemoryFacts): number {
  return ports * PEAK_MIB_PER_PORT;
}

const BYTES_PER_MIB = 1024 * 1024;

function overheadMiBIn(registry: BindingRegistry, name: string): number {
  const memory = registry[name]?.computeResourceOverhead?.requests?.["memory"] ?? 0;
  return Math.ceil((parseQuantity(memory) ?? 0) / BYTES_PER_MIB);
}

/** What they are registered with, MiB, rounded up: each once, however many interfaces have it. What cannot be read is 0. */
export function bindingsMiBOf(spec: VmiSpec, registry: BindingRegistry): number {
  const bound = ifacesOf(spec).filter((iface) => canBind(spec, iface, registry));
  const names = new Set(bound.flatMap(({ binding }) => binding?.name ?? []));
  return [...names].reduce((sum, name) => sum + overheadMiBIn(registry, name), 0);
}
